"""Connections to servers that violate HTTP, and limits on responses."""

from __future__ import annotations

import threading
import time
from itertools import chain, repeat
from typing import TYPE_CHECKING

import pytest

from opmkit.http.errors import InvalidURL
from opmkit.http.messages import Headers, Origin, request_target
from opmkit.http.streams import MAX_HEADER_SIZE, MAX_INFORMATIONAL
from opmkit.imagetools.errors import ImageToolsError, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RegistryRepository, RetryPolicy
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
        (b"X: a\r\n" * 1000, OK, f"header exceeds {MAX_HEADER_SIZE} bytes"),
        (b"a" * 60_000, b"HTTP/1.1 200 ", f"header exceeds {MAX_HEADER_SIZE} bytes"),
        (b"X: a\r\n" * 1000, CHUNKED + b"0\r\n", "the trailer of the response is too large"),
    ],
    ids=["continue", "header", "number of fields", "status", "trailer"],
)
def test_endless_response_is_rejected_without_retry(repeated: bytes, start: bytes, message: str) -> None:
    with RawServer(lambda _: endless(repeated, start)) as server:
        with pytest.raises(RegistryUnavailable, match=rf"invalid response from {server.host}: .*{message}"):
            repository(server).tags()
        assert server.connections == 1


def padded(size: int) -> bytes:
    """Return a field with which a header that has no others has the given size."""
    return b"X: %s\r\n\r\n" % (b"a" * (size - len("X: \r\n\r\n")))


@pytest.mark.parametrize(("more", "is_valid"), [(0, True), (1, True), (2, False), (60_000, False)])
@pytest.mark.parametrize("part", ["header", "informational"])
def test_limit_of_a_header_that_arrives_at_once(part: str, more: int, *, is_valid: bool) -> None:
    responses = {
        "header": OK
        + padded(MAX_HEADER_SIZE - len(OK) - len(b"Content-Length: 12\r\n") + more).replace(
            b"\r\n\r\n", b"\r\nContent-Length: %d\r\n\r\n" % len(TAGS)
        )
        + TAGS,
        "informational": b"HTTP/1.1 103 Hints\r\n" + padded(MAX_HEADER_SIZE - 20 + more) + WHOLE,
    }
    with RawServer(lambda _: [responses[part]]) as server:
        if is_valid:
            assert list(repository(server).tags()) == ["a"]
        else:
            with pytest.raises(RegistryUnavailable, match=f"header exceeds {MAX_HEADER_SIZE} bytes"):
                repository(server).tags()


def test_trailer() -> None:
    """A trailer of that size is allowed, and ends the use of the connection."""
    response = CHUNKED + b"%x\r\n%b\r\n0\r\n" % (len(TAGS), TAGS) + padded(50_000)
    with RawServer(lambda _: [response], keep_alive=True) as server:
        tags = repository(server)
        assert [list(tags.tags()), list(tags.tags())] == [["a"], ["a"]]
        assert server.connections == 2


def test_repeated_fields_are_joined() -> None:
    fields = [(b"A", b"1"), (b"b", b"2"), (b"a", b"3")]
    assert dict(Headers(fields)) == {"a": "1, 3", "b": "2"}
    assert (Headers(fields).first("a"), Headers(fields).first("c")) == ("1", "")
    assert len(Headers([(b"a", b"")] * 60_000)["A"]) == 2 * 60_000 - 2


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


LENGTH = b"Content-Length: %d\r\n" % len(TAGS)


@pytest.mark.parametrize(
    "header",
    [
        b"garbage\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        OK + b"no colon\r\n" + LENGTH,
        OK + b"Content-Length : 14\r\n",
        OK + b": no name\r\n" + LENGTH,
        OK + b" folded: first\r\n" + LENGTH,
        OK + b"X: a\0b\r\n" + LENGTH,
        OK + b"X: a\rY: b\r\n" + LENGTH,
        OK + LENGTH + b"Content-Length: 5\r\n",
        OK + b"Content-Length: 14, 5\r\n",
        OK + b"Content-Length: +14\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ],
)
def test_invalid_header_is_rejected_without_retry(header: bytes) -> None:
    with RawServer(lambda _: [header + b"\r\n" + TAGS]) as server:
        with pytest.raises(RegistryUnavailable, match=f"invalid response from {server.host}: the header violates HTTP"):
            repository(server).tags()
        assert server.connections == 1


@pytest.mark.parametrize(
    "response",
    [
        OK + LENGTH + LENGTH + b"\r\n" + TAGS,
        OK + b"X: folded\r\n \t line\r\n" + LENGTH + b"\r\n" + TAGS,
        OK + b"X: \xff\r\nX:\r\n" + LENGTH + b"\r\n" + TAGS,
        OK + LENGTH + b"Transfer-Encoding: Chunked\r\n\r\ne;x=y\r\n" + TAGS + b"\r\n0\r\nX: trailer\r\n\r\n",
        WHOLE.replace(b"\r\n", b"\n"),
        b"HTTP/1.1 200\r\n\r\n" + TAGS,
        b"HTTP/1.0 200 OK\r\n\r\n" + TAGS,
        WHOLE.replace(b"HTTP/1.1 200", b"HTTP/1.1  200"),
        WHOLE.replace(b"Length: ", b"Length: " + b"0" * 30),
        OK + b"Content-Length: x\r\nTransfer-Encoding: chunked\r\n\r\ne\r\n" + TAGS + b"\r\n0\r\n\r\n",
    ],
    ids=[
        "repeated",
        "folded",
        "Latin-1",
        "chunked and length",
        "line feeds",
        "no reason",
        "HTTP/1.0",
        "two spaces",
        "zeros",
        "chunked and invalid length",
    ],
)
def test_unusual_responses(response: bytes) -> None:
    with RawServer(lambda _: [response]) as server:
        assert list(repository(server).tags()) == ["a"]


@pytest.mark.parametrize("body", [b"zz\r\n", b"-1\r\n", b"e\r\n" + TAGS + b"0\r\n\r\n", b"f" * 21 + b"\r\n"])
def test_invalid_chunks_are_rejected_without_retry(body: bytes) -> None:
    with RawServer(lambda _: [CHUNKED + body]) as server:
        with pytest.raises(RegistryUnavailable, match=f"invalid response from {server.host}: invalid chunks"):
            repository(server).tags()
        assert server.connections == 1


@pytest.mark.parametrize("body", [b"e\r\n" + TAGS, b"e\r\n" + TAGS[:5]])
def test_incomplete_chunks_are_requested_again(body: bytes) -> None:
    replies = [CHUNKED + body, WHOLE]
    with RawServer(lambda _: [replies.pop(0)]) as server:
        assert list(repository(server).tags()) == ["a"]
        assert server.connections == 2


def test_length_of_chunks_is_ignored() -> None:
    """RFC 9112, section 6.3; a registry behind a proxy that compresses or decompresses may send both."""
    blob = noise(1000)
    header = OK + b"Content-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(blob), blob)
    with RawServer(lambda _: [header, body]) as server, repository(server).open_blob(described(blob)) as stream:
        assert stream.read() == blob


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_status_without_body(status: bytes) -> None:
    """A length that the response claims is not waited for."""
    with (
        RawServer(lambda _: [b"HTTP/1.1 " + status + b"\r\nContent-Length: 9\r\n\r\n"], keep_alive=True) as server,
        pytest.raises(ImageToolsError, match="the registry returned"),
    ):
        repository(server).tags()


@pytest.mark.parametrize(
    ("response", "connections"),
    [
        (WHOLE, 1),
        (CHUNKED + b"e\r\n" + TAGS + b"\r\n0\r\n\r\n", 1),
        (CONTINUE + WHOLE, 1),
        (OK + LENGTH + b"Connection: close\r\n\r\n" + TAGS, 2),
        (WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"), 2),
        (WHOLE + OK + b'Content-Length: 14\r\n\r\n{"tags":["b"]}', 2),
        (CHUNKED + b"e\r\n" + TAGS + b"\r\n0\r\n\r\n" + WHOLE.replace(b"a", b"b"), 2),
        (CHUNKED + b"e\r\n" + TAGS + b"\r\n0\r\n\r\n\r\n", 2),
    ],
    ids=[
        "length",
        "chunked",
        "continue",
        "close",
        "HTTP/1.0",
        "unsolicited response",
        "unsolicited response after chunks",
        "line feed after chunks",
    ],
)
def test_reuse_of_connections(response: bytes, connections: int) -> None:
    with RawServer(lambda _: [response], keep_alive=True) as server:
        tags = repository(server)
        assert [list(tags.tags()), list(tags.tags())] == [["a"], ["a"]]
        assert server.connections == connections


def test_body_of_a_head_response_is_not_the_next_response() -> None:
    """A response to HEAD has no body, even if the server sends one."""
    described = b"Content-Type: x/y\r\nDocker-Content-Digest: sha256:" + b"0" * 64 + b"\r\n"
    head = OK + described + b"Content-Length: %d\r\n\r\n" % len(WHOLE)
    with RawServer(lambda line: [head + WHOLE] if line.startswith("HEAD") else [WHOLE], keep_alive=True) as server:
        opened = repository(server)
        opened.resolve("1")
        assert list(opened.tags()) == ["a"]
        assert server.connections == 2


def test_late_bytes_are_not_the_next_response() -> None:
    def reply(_: str) -> Iterable[bytes]:
        yield WHOLE
        if server.connections == 1:
            yield OK + b'Content-Length: 14\r\n\r\n{"tags":["b"]}'
            sent.set()

    sent = threading.Event()
    with RawServer(reply, keep_alive=True) as server:
        opened = repository(server)
        assert list(opened.tags()) == ["a"]
        sent.wait(10)
        assert list(opened.tags()) == ["a"]
        assert server.connections == 2


def test_connection_that_the_server_closed_is_not_used() -> None:
    """A new connection is opened right away, without the wait of a retry."""
    waits: list[float] = []
    with RawServer(lambda _: [WHOLE]) as server:
        client = RegistryClient(RegistryOptions(plain_http=True), retry=RetryPolicy(sleep=waits.append))
        opened = client.repository(Reference(server.host, "team/app"))
        for _ in range(3):
            assert list(opened.tags()) == ["a"]
            time.sleep(0.2)  # until the connection is closed
        assert (server.connections, waits) == (3, [])


def test_unread_body_is_not_the_next_response() -> None:
    blob = noise(1 << 20)
    replies = [OK + b"Content-Length: %d\r\n\r\n" % len(blob) + blob, WHOLE]
    with RawServer(lambda _: [replies.pop(0)], keep_alive=True) as server:
        opened = repository(server)
        with opened.open_blob(described(blob)) as stream:
            stream.read(10)
        assert list(opened.tags()) == ["a"]
        assert server.connections == 2


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://Host.example/a", "host.example"),
        ("http://host.example.:8080/", "host.example:8080"),
        ("https://user:word@host.example:443", "host.example"),
        ("https://host.example:80/", "host.example:80"),
        ("http://[::1]:5000/v2/", "[::1]:5000"),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example"),
    ],
)
def test_origin(url: str, host: str) -> None:
    assert Origin.from_url(url).host_header == host


@pytest.mark.parametrize(
    "url", ["http://host:x/", "http://host:65536/", "ftp://host/", "http://\u00fc" + "a" * 70 + "/"]
)
def test_origin_of_an_invalid_url(url: str) -> None:
    with pytest.raises(InvalidURL):
        Origin.from_url(url)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://host", "/"),
        ("http://host?a=b", "/?a=b"),
        ("http://host/v2/a%20b/\u00fc c?d=e f#fragment", "/v2/a%20b/%C3%BC%20c?d=e%20f"),
        ("http://host/a\x00\x7f?x=y\x1f&~", "/a%00%7F?x=y%1F&~"),
    ],
)
def test_request_target(url: str, target: str) -> None:
    assert request_target(url) == target
