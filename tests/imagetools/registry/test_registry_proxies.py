"""Forward proxies configured by the environment."""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import ImageToolsError, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RetryPolicy, transport
from tests.kit.certificates import certificate_authority, server_certificate
from tests.kit.content import noise, put_image
from tests.kit.forwardproxy import ForwardProxy

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

HOST = "registry.test:5000"
PLAIN = "plain.test:5000"
"""Hosts that only the proxy can resolve."""


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_http_requests(registry: Registry, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    with ForwardProxy({HOST: registry.host}) as proxy:
        monkeypatch.setenv(variable, f"http://{proxy.host}")
        repository = RegistryClient(RegistryOptions(plain_http=True)).repository(Reference(HOST, "proxied"))
        manifest = put_image(repository, "1", noise(300_000))
        assert repository.get_manifest("1") == manifest
        assert {host for _, host in proxy.seen} == {HOST}


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy"])
def test_https_tunnels(tls_registry: Registry, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """The certificate of the registry is verified, with the same settings as without a proxy."""
    with ForwardProxy({HOST: tls_registry.host}) as proxy:
        monkeypatch.setenv(variable, f"http://{proxy.host}")
        reference = Reference(HOST, "proxied")
        repository = RegistryClient(RegistryOptions(ca_file=tls_registry.ca_file)).repository(reference)
        manifest = put_image(repository, "1", noise(300_000))
        assert repository.get_manifest("1") == manifest
        assert set(proxy.seen) == {("CONNECT", HOST)}
        with pytest.raises(ImageToolsError, match="not trusted"):
            RegistryClient().repository(reference).resolve("1")


def test_time_for_a_tunnel_is_that_of_a_response(tls_registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy first connects to the server, or asks another proxy to."""
    monkeypatch.setattr(transport, "CONNECT_TIMEOUT", 2.0)
    with ForwardProxy({HOST: tls_registry.host}) as proxy:
        proxy.delay = 3.0
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.host}")
        options, retry = RegistryOptions(ca_file=tls_registry.ca_file), RetryPolicy(max_attempts=1)
        assert put_image(RegistryClient(options, retry=retry).repository(Reference(HOST, "slow")), "1")


def test_proxy_with_tls(
    tls_registry: Registry, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy needs a certificate that the system trusts, also where the registry has an own authority."""
    authority = certificate_authority(tmp_path)
    certificate = server_certificate(tmp_path, authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    retry = RetryPolicy(max_attempts=1)
    with ForwardProxy({HOST: tls_registry.host, PLAIN: registry.host}, context=context) as proxy:
        for variable in ("HTTPS_PROXY", "HTTP_PROXY"):
            monkeypatch.setenv(variable, f"https://{proxy.host}")
        options = RegistryOptions(ca_file=tls_registry.ca_file)
        with pytest.raises(ImageToolsError, match=r"proxy https://\S+ \(HTTPS_PROXY\): .* not trusted"):
            RegistryClient(options, retry=retry).repository(Reference(HOST, "proxied")).resolve("1")
        assert not proxy.seen
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        encrypted = RegistryClient(options, retry=retry)
        for client, host in (encrypted, HOST), (RegistryClient(RegistryOptions(plain_http=True), retry=retry), PLAIN):
            repository = client.repository(Reference(host, "proxied"))
            manifest = put_image(repository, "1", noise(300_000))
            assert repository.get_manifest("1") == manifest
        assert ("CONNECT", HOST) in proxy.seen
        assert ("PUT", PLAIN) in proxy.seen


@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
def test_no_proxy(registry: Registry, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """Without the proxy the host is unknown."""
    with ForwardProxy({PLAIN: registry.host}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.host}")
        options, reference = RegistryOptions(plain_http=True), Reference(PLAIN, "proxied")
        put_image(RegistryClient(options).repository(reference), "1")
        requests = len(proxy.seen)
        assert requests
        monkeypatch.setenv(variable, "other.test,*.test")
        with pytest.raises(RegistryUnavailable, match="unknown host"):
            RegistryClient(options, retry=RetryPolicy(max_attempts_unreachable=1)).repository(reference).resolve("1")
        assert len(proxy.seen) == requests


def test_no_proxy_for_this_machine(registry: Registry, opm: Opm) -> None:
    put_image(RegistryClient(RegistryOptions(plain_http=True)).repository(Reference(registry.host, "local")), "1")
    with ForwardProxy() as proxy:
        opm = replace(opm, env={"HTTP_PROXY": f"http://{proxy.host}", "ALL_PROXY": f"http://{proxy.host}"})
        assert opm.attempt("image", "inspect", f"{registry.host}/local:1", "--use-http").returncode == 0
        assert not proxy.seen


def test_no_proxy_for_a_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    with ForwardProxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.host}")
        monkeypatch.setenv("NO_PROXY", ".invalid")
        client = RegistryClient(RegistryOptions(plain_http=True), retry=RetryPolicy(max_attempts_unreachable=1))
        with pytest.raises(RegistryUnavailable, match="unknown host"):
            client.repository(Reference("registry.invalid", "a")).resolve("1")
        assert not proxy.seen


def test_proxy_authentication(
    tls_registry: Registry, registry: Registry, opm: Opm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the proxy receives the password, and it is never printed."""
    options = {HOST: RegistryOptions(ca_file=tls_registry.ca_file), PLAIN: RegistryOptions(plain_http=True)}
    hosts = {HOST: tls_registry.host, PLAIN: registry.host}
    flags = {HOST: f"--ca-file={tls_registry.ca_file}", PLAIN: "--use-http"}
    with ForwardProxy(hosts, login="me:pr0xy-w0rd") as proxy:
        for variable in ("HTTPS_PROXY", "HTTP_PROXY"):
            monkeypatch.setenv(variable, f"http://me:pr0xy-w0rd@{proxy.host}")
        for name in hosts:
            put_image(RegistryClient(options[name]).repository(Reference(name, "login")), "1")
        url = f"http://me:wr0ng-w0rd@{proxy.host}"
        opm = replace(opm, env={"HTTPS_PROXY": url, "HTTP_PROXY": url})
        for name in hosts:
            done = opm.attempt("image", "inspect", f"{name}/login:1", flags[name], "--debug")
            setting = "HTTPS_PROXY" if name == HOST else "HTTP_PROXY"
            message = f"proxy http://{proxy.host} ({setting}): proxy authentication required"
            assert message in " ".join(done.stderr.split())
            assert "wr0ng-w0rd" not in done.stdout + done.stderr


@pytest.mark.parametrize(("status", "attempts"), [(403, 1), (404, 1), (502, 6)])
def test_proxy_refuses_the_connection(
    monkeypatch: pytest.MonkeyPatch, registry: Registry, status: int, attempts: int
) -> None:
    with ForwardProxy({HOST: registry.host}) as proxy:
        proxy.refused = status
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.host}")
        client = RegistryClient(retry=RetryPolicy(sleep=lambda _: None))
        message = rf"proxy http://{proxy.host} \(HTTPS_PROXY\): the proxy returned {status} "
        with pytest.raises(RegistryUnavailable, match=message):
            client.repository(Reference(HOST, "a")).resolve("1")
        assert proxy.requests == attempts


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("socks5://127.0.0.1:1080", r"proxy socks5://127.0.0.1:1080 \(ALL_PROXY\): unsupported kind of proxy"),
        ("http://me:w0rd@:x", r"proxy http://:x \(ALL_PROXY\): invalid URL"),
        ("http://me:w0rd@127.0.0.1:1", r"proxy http://127.0.0.1:1 \(ALL_PROXY\): connection refused; gave up after 3"),
    ],
)
def test_unusable_proxy(monkeypatch: pytest.MonkeyPatch, url: str, message: str) -> None:
    monkeypatch.setenv("ALL_PROXY", url)
    client = RegistryClient(retry=RetryPolicy(sleep=lambda _: None))
    with pytest.raises(RegistryUnavailable, match=message):
        client.repository(Reference(HOST, "a")).resolve("1")
