"""Limits on response headers, trailers and informational responses."""

from __future__ import annotations

import time
from itertools import chain, repeat
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import ImageToolsError, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RegistryRepository, RetryPolicy
from opmkit.imagetools.registry.sessions import MAX_HEADER_SIZE, MAX_INFORMATIONAL
from tests.kit.content import described, noise
from tests.kit.rawserver import RawServer, endless

if TYPE_CHECKING:
    from collections.abc import Iterable

OK = b"HTTP/1.1 200 OK\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
TAGS = b'{"tags":["a"]}'
WHOLE = OK + b"Content-Length: %d\r\n\r\n" % len(TAGS) + TAGS
DEADLINE = 1.0
"""Seconds. Attempts take at least one second, so an operation ends after two."""


def repository(server: RawServer) -> RegistryRepository:
    options = RegistryOptions(plain_http=True, deadline=DEADLINE)
    return RegistryClient(options, retry=RetryPolicy()).repository(Reference(server.host, "team/app"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(lambda: endless(b"a", OK + b"X: ", interval=0.05), id="header"),
        pytest.param(lambda: endless(b"H", interval=0.05), id="status"),
        pytest.param(lambda: endless(CONTINUE, interval=0.1), id="continue"),
        pytest.param(lambda: endless(b"0", CHUNKED, interval=0.05), id="chunk size"),
        pytest.param(lambda: endless(b"a", CHUNKED + b"0\r\nX: ", interval=0.05), id="trailer"),
        pytest.param(lambda: endless(b"a", OK + b"Content-Length: 60000\r\n\r\n", interval=0.05), id="body"),
        pytest.param(
            lambda: endless(
                b"a",
                b'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm="x"\r\nContent-Length: 60000\r\n\r\n',
                interval=0.05,
            ),
            id="dropped body",
        ),
    ],
)
def test_slow_response_ends_at_the_deadline(reply: type[Iterable[bytes]]) -> None:
    with RawServer(lambda _: reply()) as server:
        start = time.monotonic()
        with pytest.raises(ImageToolsError):
            repository(server).tags()
    assert time.monotonic() - start < 10 * DEADLINE


@pytest.mark.parametrize(
    ("repeated", "start", "message"),
    [
        (CONTINUE, b"", f"more than {MAX_INFORMATIONAL} informational"),
        (b"X: %s\r\n" % (b"a" * 60_000), OK, f"header exceeds {MAX_HEADER_SIZE} bytes"),
        (b"X: a\r\n" * 1000, CHUNKED + b"0\r\n", f"header exceeds {MAX_HEADER_SIZE} bytes"),
    ],
    ids=["continue", "header", "trailer"],
)
def test_endless_response_is_rejected_without_retry(repeated: bytes, start: bytes, message: str) -> None:
    with RawServer(lambda _: endless(repeated, start)) as server:
        with pytest.raises(RegistryUnavailable, match=rf"invalid response from {server.host}: .*{message}"):
            repository(server).tags()
        assert server.connections == 1


def test_allowed_informational_responses_and_long_headers() -> None:
    header = OK + b"X-Long: %s\r\n" % (b"a" * 30_000) + b"Content-Length: %d\r\n\r\n" % len(TAGS)
    with RawServer(lambda _: [CONTINUE * MAX_INFORMATIONAL, header, TAGS]) as server:
        assert list(repository(server).tags()) == ["a"]


@pytest.mark.slow
def test_chunk_lines_of_a_body_are_not_limited() -> None:
    blob = noise(60_000)
    chunks = (b"1;%s\r\n%c\r\n" % (b"x" * 8, byte) for byte in blob)
    with (
        RawServer(lambda _: chain([CHUNKED], [b"".join(chunks)], [b"0\r\n\r\n"])) as server,
        repository(server).open_blob(described(blob)) as stream,
    ):
        assert stream.read() == blob


@pytest.mark.parametrize("length", [b"9" * 5000, b"9" * 30, b"-1", b"\xb2"])
def test_invalid_content_length(length: bytes) -> None:
    """The manifest is fetched to determine its size, as without a Content-Length."""
    digest = b"sha256:" + b"0" * 64
    head = OK + b"Content-Type: x/y\r\nDocker-Content-Digest: " + digest + b"\r\nContent-Length: " + length
    methods = []

    def reply(request: str) -> Iterable[bytes]:
        methods.append(request.split()[0])
        return [head + b"\r\n\r\n"] if request.startswith("HEAD") else repeat(WHOLE, 1)

    with RawServer(reply) as server, pytest.raises(ImageToolsError):
        repository(server).resolve("1")
    assert methods[:2] == ["HEAD", "GET"]
