"""Certificates that a client trusts."""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import InsecureTransport
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.registry.oras_registry import OrasRegistry
from tests.kit.certificates import (
    Certificate,
    certificate_authority,
    client_certificate,
    intermediate_authority,
    server_certificate,
)
from tests.kit.content import put_image
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry


class Tags(QuietHandler):
    def do_GET(self) -> None:  # noqa: N802 (http.server names it)
        self.answer(200, b'{"tags":["a"]}', {"Content-Type": "application/json"})


@pytest.fixture
def certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Certificate]:
    """Return the certificates of a server and of its two authorities, and another one; the system trusts none."""
    root = certificate_authority(tmp_path)
    intermediate = intermediate_authority(tmp_path, root)
    (empty := tmp_path / "empty").mkdir()
    (empty / "README").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing"))
    monkeypatch.setenv("SSL_CERT_DIR", str(empty))
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    return {
        "root": root,
        "intermediate": intermediate,
        "server": server_certificate(tmp_path, intermediate),
        "other": client_certificate(tmp_path, root),
    }


@pytest.fixture
def server(certificates: dict[str, Certificate]) -> Iterator[WebServer]:
    """Start a server that sends its certificate and the intermediate one."""
    chain = certificates["server"].certificate.with_name("chain.pem")
    chain.write_bytes(b"".join(certificates[name].certificate.read_bytes() for name in ("server", "intermediate")))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, certificates["server"].key)
    with WebServer(Tags, context) as started:
        yield started


def tags(server: WebServer, *, ca_file: Path | None = None, cert_dir: Path | None = None) -> list[str]:
    client = RegistryClient(RegistryOptions(ca_file=ca_file, cert_dir=cert_dir))
    return list(client.repository(Reference(server.host, "app")).tags())


@pytest.mark.parametrize("name", ["root", "intermediate", "server"])
def test_any_certificate_of_the_chain_can_be_trusted(
    certificates: dict[str, Certificate], server: WebServer, tmp_path: Path, name: str
) -> None:
    certificate = certificates[name].certificate
    assert tags(server, ca_file=certificate) == ["a"]
    (cert_dir := tmp_path / "certs.d").mkdir()
    (cert_dir / "registry.crt").write_bytes(certificate.read_bytes())
    assert tags(server, cert_dir=cert_dir) == ["a"]


def test_other_certificates_are_not_trusted(certificates: dict[str, Certificate], server: WebServer) -> None:
    with pytest.raises(InsecureTransport, match="not trusted"):
        tags(server, ca_file=certificates["other"].certificate)


@pytest.mark.parametrize("name", ["root.pem", "corporate", "0123abcd.x"])
def test_directory_with_plain_file_names(
    certificates: dict[str, Certificate], server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (directory := tmp_path / "authorities").mkdir()
    (directory / name).write_bytes(certificates["root"].certificate.read_bytes())
    monkeypatch.setenv("SSL_CERT_DIR", f"{tmp_path / 'none'}:{directory}")
    assert tags(server) == ["a"]


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_authorities_of_requests(
    certificates: dict[str, Certificate], server: WebServer, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """They are those of programs that are written with oras-py."""
    monkeypatch.setenv(variable, str(certificates["root"].certificate))
    assert OrasRegistry().get_tags(f"{server.host}/app") == ["a"]
    with pytest.raises(InsecureTransport):
        tags(server)


def test_certificate_of_the_registry(tls_registry: Registry, opm: Opm, tmp_path: Path) -> None:
    client = RegistryClient(RegistryOptions(ca_file=tls_registry.ca_file))
    put_image(client.repository(Reference(tls_registry.host, "trusted")), "1")
    host, _, port = tls_registry.host.rpartition(":")
    certificate = tmp_path / "registry.pem"
    certificate.write_text(ssl.get_server_certificate((host, int(port))))
    opm = replace(opm, env={"SSL_CERT_FILE": str(tmp_path / "missing"), "SSL_CERT_DIR": str(tmp_path)})
    assert opm("image", "inspect", f"{tls_registry.host}/trusted:1")
    opm = replace(opm, env={})
    assert opm("image", "inspect", f"{tls_registry.host}/trusted:1", "--ca-file", str(certificate))
