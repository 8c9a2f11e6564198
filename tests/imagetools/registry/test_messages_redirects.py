"""Encrypted registries that lead to plain HTTP: only what a digest verifies may be read there."""

from __future__ import annotations

import io
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import AuthenticationFailed, InsecureTransport, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.registry.messages import http_url
from opmkit.imagetools.spec import Manifest, media_types
from tests.kit.certificates import certificate_authority, server_certificate
from tests.kit.content import described
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from opmkit.imagetools.registry import RegistryRepository

BLOB = b"layer"
MANIFEST = Manifest.build(described(BLOB), ())


@dataclass
class Servers:
    """An encrypted registry that leads every request to a server without TLS, and the paths that this one got."""

    repository: RegistryRepository
    plain: list[str] = field(default_factory=list)


def context(directory: Path, *, alternative_names: bool = True) -> tuple[ssl.SSLContext, Path]:
    """Return the TLS context of a server for localhost, and its authority."""
    authority = certificate_authority(directory)
    certificate = server_certificate(directory, authority, alternative_names=alternative_names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    return context, authority.certificate


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    paths: list[str] = []

    class Plain(QuietHandler):
        def _serve(self) -> None:
            self.request_body()
            paths.append(self.path)
            content = BLOB if "/blobs/" in self.path else MANIFEST.raw
            self.answer(200, content, {"Content-Type": media_types.OCI_MANIFEST})

        do_GET = do_HEAD = do_PUT = do_POST = _serve  # noqa: N815

    class Encrypted(QuietHandler):
        def _serve(self) -> None:
            self.request_body()
            if self.command == "HEAD" and "/blobs/" in self.path:
                self.answer(404, b"")
            else:
                status = 202 if self.command == "POST" else 307
                self.answer(status, b"", {"Location": f"http://{plain.host}{self.path}"})

        do_GET = do_HEAD = do_PUT = do_POST = _serve  # noqa: N815

    tls, authority = context(tmp_path)
    with WebServer(Plain) as plain, WebServer(Encrypted, tls) as encrypted:
        client = RegistryClient(RegistryOptions(ca_file=authority, deadline=5))
        yield Servers(client.target(Reference(encrypted.host, "team/app")), paths)


READS: dict[str, Callable[[RegistryRepository], object]] = {
    "resolve": lambda repository: repository.resolve("1"),
    "manifest by tag": lambda repository: repository.get_manifest("1"),
    "tags": lambda repository: list(repository.tags()),
    "referrers": lambda repository: repository.referrers(MANIFEST.digest),
    "upload": lambda repository: repository.put_blob(described(BLOB), lambda: io.BytesIO(BLOB)),
    "push": lambda repository: repository.put_manifest(MANIFEST, "1"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_no_digest_verifies_stays_encrypted(
    servers: Servers, read: Callable[[RegistryRepository], object]
) -> None:
    with pytest.raises(RegistryUnavailable, match="refusing to follow"):
        read(servers.repository)
    assert servers.plain == []


def test_content_with_a_digest_may_come_from_anywhere(servers: Servers) -> None:
    with servers.repository.open_blob(described(BLOB)) as stream:
        assert stream.read() == BLOB
    assert servers.repository.get_manifest(MANIFEST.digest) == MANIFEST
    assert len(servers.plain) == 2


def test_no_token_is_requested_without_encryption(tmp_path: Path) -> None:
    class Handler(QuietHandler):
        def do_HEAD(self) -> None:  # noqa: N802 (http.server names it)
            self.answer(401, b"", {"WWW-Authenticate": 'Bearer realm="http://127.0.0.1:1/token"'})

    tls, authority = context(tmp_path)
    with WebServer(Handler, tls) as server:
        client = RegistryClient(RegistryOptions(ca_file=authority, deadline=5))
        with pytest.raises(AuthenticationFailed, match="refusing to ask for a token over plain HTTP"):
            client.target(Reference(server.host, "team/app")).resolve("1")


@pytest.mark.parametrize(
    ("base", "url", "expected"),
    [
        ("https://a/v2/", "/x", "https://a/x"),
        ("https://a/v2/", "https://b/x", "https://b/x"),
        ("https://a/v2/", "http://a/x", "https://a/x"),  # a registry behind a proxy that terminates TLS
        ("http://a/v2/", "http://b/x", "http://b/x"),
        ("https://a/v2/", "http://b/x", ""),
        ("https://a/v2/", "http://a:80/x", ""),
        ("https://a/v2/", "file:///x", ""),
    ],
)
def test_where_responses_may_lead(base: str, url: str, expected: str) -> None:
    if expected:
        assert http_url(base, url, "subject") == expected
    else:
        with pytest.raises(RegistryUnavailable):
            http_url(base, url, "subject")


def test_common_names_are_no_names(tmp_path: Path) -> None:
    class Handler(QuietHandler):
        def do_HEAD(self) -> None:  # noqa: N802 (http.server names it)
            self.answer(404, b"")

    tls, authority = context(tmp_path, alternative_names=False)
    with WebServer(Handler, tls) as server:
        host = server.host.replace("127.0.0.1", "localhost")
        client = RegistryClient(RegistryOptions(ca_file=authority, deadline=5))
        with pytest.raises(InsecureTransport, match="localhost"):
            client.target(Reference(host, "team/app")).resolve("1")
