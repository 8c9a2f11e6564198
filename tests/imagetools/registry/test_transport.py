"""Downloads of files from servers that fail, lie or do not stop."""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.errors import ImageToolsError, InsecureTransport, NotFound, RegistryUnavailable
from opmkit.imagetools.registry import RegistryOptions
from opmkit.imagetools.registry.transport import download
from tests.kit.certificates import certificate_authority, server_certificate
from tests.kit.rawserver import RawServer, endless
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPTIONS = RegistryOptions(deadline=2)
CONTENT = b"schema: x\n"


def head(length: int | str = len(CONTENT), status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {length}", "Connection: close"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()


def fetch(*replies: bytes | Iterator[bytes], limit: int = 100, options: RegistryOptions = OPTIONS) -> tuple[bytes, int]:
    """Return what is downloaded from a server with a reply per request, and the number of requests."""
    queue = list(replies)

    def reply(_: str) -> list[bytes] | Iterator[bytes]:
        current = queue.pop(0) if len(queue) > 1 else queue[0]
        return [current] if isinstance(current, bytes) else current

    with RawServer(reply) as server:
        return download(f"http://{server.host}/file.yaml", limit, options), server.connections


def test_complete_file() -> None:
    assert fetch(head() + CONTENT) == (CONTENT, 1)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        head(status="503 Service Unavailable"),
        head() + CONTENT[:5],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nschem",
    ],
    ids=["closed", "busy", "cut off", "cut off chunk"],
)
def test_transient_failure_is_retried(first: bytes) -> None:
    assert fetch(first, head() + CONTENT) == (CONTENT, 2)


def test_file_that_is_always_cut_off() -> None:
    with pytest.raises(RegistryUnavailable, match=r"file\.yaml: connection to .* failed: the response ended early"):
        fetch(head() + CONTENT[:5])


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        (head(status="404 Not Found"), NotFound, "not found"),
        (head(0, status="403 Forbidden"), ImageToolsError, r"the server returned 403 \(Forbidden\)"),
        (head(0, status="401 Unauthorized"), ImageToolsError, r"the server returned 401 \(Unauthorized\)"),
        (head(0, status="302 Found", Location="file:///etc/passwd"), RegistryUnavailable, "invalid URL"),
        (head(0, status="302 Found", Location="http://user:a/pw@127.0.0.1:9/x"), RegistryUnavailable, "invalid URL"),
        (head(101) + bytes(101), LimitExceeded, "larger than 100 bytes"),
    ],
)
def test_other_responses(reply: bytes, error: type[ImageToolsError], message: str) -> None:
    with pytest.raises(error, match=message):
        fetch(reply)


def test_endless_file_is_read_up_to_the_limit() -> None:
    with pytest.raises(LimitExceeded, match="larger than 1048576 bytes"):
        fetch(endless(bytes(65536), b"HTTP/1.1 200 OK\r\n\r\n"), limit=1 << 20)


@pytest.mark.slow
def test_slow_file_ends_at_the_deadline() -> None:
    with pytest.raises(RegistryUnavailable, match="too slow"):
        fetch(endless(b"x", head(10000), 0.2), limit=1 << 20, options=replace(OPTIONS, deadline=1))


@pytest.mark.parametrize("url", ["http://", "ftp://x/y", "http://[", "https://:1/x"])
def test_invalid_urls(url: str) -> None:
    with pytest.raises(ImageToolsError, match="invalid URL"):
        download(url, 100, OPTIONS)


def test_encrypted_download_stays_encrypted(tmp_path: Path) -> None:
    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server names it)
            if self.path == "/file":
                self.answer(200, CONTENT)
            else:
                self.answer(302, b"", {"Location": f"http://{plain.host}/file"})

    authority = certificate_authority(tmp_path)
    certificate = server_certificate(tmp_path, authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    options = replace(OPTIONS, ca_file=authority.certificate)
    with WebServer(Handler) as plain, WebServer(Handler, context) as encrypted:
        assert download(f"https://{encrypted.host}/file", 100, options) == CONTENT
        with pytest.raises(ImageToolsError, match=r"refusing to follow .* from HTTPS to http:"):
            download(f"https://{encrypted.host}/other", 100, options)
        with pytest.raises(InsecureTransport, match="is not trusted"):
            download(f"https://{encrypted.host}/file", 100, OPTIONS)
