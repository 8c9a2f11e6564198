"""The choice of a proxy by the environment. Go's net/http chooses the same, except with ALL_PROXY and ``[ADDRESS]``."""

from __future__ import annotations

import base64

import pytest

from opmkit.http.errors import ProxyError
from opmkit.http.proxies import Proxy, environment_proxy

PROXY = "http://proxy.test:3128"


def uses_proxy(url: str, no_proxy: str) -> bool:
    return environment_proxy(url, {"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}) is not None


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", False),
        ("LOCALHOST:8443", False),
        ("127.0.0.1:5000", False),
        ("127.9.9.9", False),
        ("[::1]:5000", False),
        ("[::ffff:127.0.0.1]", False),
        ("sub.localhost", True),
        ("localhost.localdomain", True),
        ("10.0.0.1", True),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_this_machine(scheme: str, host: str, *, expected: bool) -> None:
    assert uses_proxy(f"{scheme}://{host}/", "") is expected


@pytest.mark.parametrize(
    ("no_proxy", "direct", "proxied"),
    [
        ("*", "quay.io 10.1.2.3", ""),
        ("other, * ,more", "quay.io", ""),
        ("quay.io", "quay.io quay.io:5000 QUAY.io a.quay.io", "xquay.io quay.io."),
        ("QUAY.IO", "quay.io", ""),
        (".quay.io", "a.quay.io", "quay.io"),
        ("*.quay.io", "a.quay.io", "quay.io xquay.io"),
        ("*quay.io", "", "quay.io a.quay.io"),
        ("quay.io:443", "quay.io", "quay.io:5000"),
        ("10.0.0.0/8", "10.1.2.3 10.1.2.3:5000 [::ffff:10.1.2.3]", "11.0.0.1 quay.io"),
        ("10.1.2.3", "10.1.2.3:5000", "10.1.2.30"),
        ("10.1.2.3:5000", "10.1.2.3:5000", "10.1.2.3"),
        ("10.1.2", "", "10.1.2.3"),
        ("2001:db8::1", "[2001:db8::1] [2001:db8::1]:5000", "[2001:db8::2]"),
        ("2001:db8::/32", "[2001:db8::2]", "[2001:db9::1]"),
        ("[2001:db8::1]:5000", "[2001:db8::1]:5000", "[2001:db8::1]"),
        ("[2001:db8::1]", "[2001:db8::1]", ""),
        ("b\u00fccher.example", "xn--bcher-kva.example b\u00fccher.example", "example"),
        ("10.0.0.0/99,:443,,.", "", "quay.io 10.0.0.1"),
    ],
)
def test_exceptions(no_proxy: str, direct: str, proxied: str) -> None:
    assert [host for host in direct.split() if uses_proxy(f"https://{host}/", no_proxy)] == []
    assert [host for host in proxied.split() if not uses_proxy(f"https://{host}/", no_proxy)] == []


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"https_proxy": "http://a:1"}, "http://a:1 (https_proxy)"),
        ({"https_proxy": "http://a:1", "HTTPS_PROXY": "http://b:1"}, "http://b:1 (HTTPS_PROXY)"),
        ({"https_proxy": "http://a:1", "HTTPS_PROXY": ""}, "http://a:1 (https_proxy)"),
        ({"ALL_PROXY": "http://a:1", "https_proxy": "http://b:1"}, "http://b:1 (https_proxy)"),
        ({"HTTP_PROXY": "http://a:1", "all_proxy": "http://b:1"}, "http://b:1 (all_proxy)"),
        ({"HTTP_PROXY": "http://a:1"}, "None"),
        ({"HTTPS_PROXY": "a:3128"}, "http://a:3128 (HTTPS_PROXY)"),
        ({"HTTPS_PROXY": "http://me:w0rd@a:1"}, "http://a:1 (HTTPS_PROXY)"),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "other", "no_proxy": "quay.io"}, "http://a:1 (HTTPS_PROXY)"),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "", "no_proxy": "quay.io"}, "None"),
    ],
)
def test_precedence(environ: dict[str, str], expected: str) -> None:
    assert str(environment_proxy("https://quay.io/v2/", environ)) == expected


@pytest.mark.parametrize(
    ("login", "sent"),
    [
        ("me:w0rd", b"me:w0rd"),
        ("me", b"me:"),
        (":w0rd", b":w0rd"),
        ("m%C3%BCller:p%3Aw%FF", b"m\xc3\xbcller:p:w\xff"),
        ("m\u00fcller:w", b"m\xc3\xbcller:w"),
        ("a@b:w", b"a@b:w"),
    ],
)
def test_login(login: str, sent: bytes) -> None:
    header = Proxy(f"http://{login}@proxy.test", "HTTP_PROXY").headers["Proxy-Authorization"]
    assert base64.b64decode(header.removeprefix("Basic ")) == sent


def test_no_login() -> None:
    assert not Proxy(PROXY, "HTTP_PROXY").headers


@pytest.mark.parametrize("url", ["socks5://me:w0rd@proxy.test:1", "ftp://proxy.test", "http://proxy.test:x"])
def test_unusable(url: str) -> None:
    proxy = Proxy(url, "ALL_PROXY")
    with pytest.raises(ProxyError):
        _ = proxy.origin
    assert "w0rd" not in f"{proxy} {proxy!r}"
