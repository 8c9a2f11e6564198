"""Validation of header fields, and the cache of header blocks."""

from __future__ import annotations

import hpack
import pytest

from opmkit.server.http2.frames import ConnectionFailed
from opmkit.server.http2.headers import MAX_CACHED_BYTES, HeaderReader, MalformedHeaders, RequestHeaders, encode_headers

PSEUDO = [(":method", "POST"), (":scheme", "http"), (":path", "/a/call")]
CONTENT_TYPE = ("content-type", "application/grpc")


@pytest.mark.parametrize(
    "fields",
    [
        [*PSEUDO, ("Upper", "case")],
        [*PSEUDO, ("", "no name")],
        [*PSEUDO, ("a b", "c")],
        [*PSEUDO, ("a", "b\r\nc: d")],
        [*PSEUDO, ("a", " b")],
        [*PSEUDO, ("a", "b\0")],
        [*PSEUDO[:2], (":path", "/a\n")],
        [*PSEUDO, ("connection", "close")],
        [*PSEUDO, ("te", "gzip")],
        [*PSEUDO, ("transfer-encoding", "chunked")],
        [*PSEUDO, ("content-length", "-1")],
        [*PSEUDO, ("content-length", "1"), ("content-length", "2")],
        [*PSEUDO, (":status", "200")],
        [*PSEUDO, (":path", "/")],
        [*PSEUDO[:2], CONTENT_TYPE, PSEUDO[2]],
        [*PSEUDO[:2], (":path", "")],
        PSEUDO[1:],
        PSEUDO[:2],
    ],
)
def test_malformed_headers(fields: list[tuple[str, str]]) -> None:
    with pytest.raises(MalformedHeaders):
        HeaderReader().read(hpack.Encoder().encode(fields))


def test_valid_headers() -> None:
    fields = [
        *PSEUDO,
        (":authority", "a:1"),
        ("te", "trailers"),
        CONTENT_TYPE,
        ("x-bin", "AA=="),
        ("content-length", "7"),
    ]
    assert HeaderReader().read(hpack.Encoder().encode(fields)) == RequestHeaders(
        b"POST", b"/a/call", b"application/grpc", 7
    )


RESIZE_0, RESIZE_4096 = b"\x20", b"\x3f\xe1\x1f"


def test_blocks_that_resize_the_table_are_not_cached() -> None:
    """The first block has no effect on an empty table, but must have one when it is repeated."""
    encoder, reader = hpack.Encoder(), HeaderReader()
    indexed = encoder.encode(PSEUDO[:2])
    plain = indexed + b"\x04\x07/a/call"
    adding = indexed + b"\x44\x07/a/call"
    using = indexed + b"\xbe"
    for block in (RESIZE_0 + plain, RESIZE_4096 + plain, adding, using, RESIZE_0 + plain, RESIZE_4096 + plain):
        assert reader.read(block).path == b"/a/call"
    with pytest.raises(ConnectionFailed):
        reader.read(using)


def test_block_that_does_not_fit_into_the_table_is_not_cached() -> None:
    encoder, reader = hpack.Encoder(), HeaderReader()
    indexed = encoder.encode(PSEUDO[:2])
    adding = indexed + b"\x44\x07/a/call"
    reader.read(RESIZE_0 + indexed + b"\x04\x07/a/call")
    for block in (adding, adding, RESIZE_4096 + indexed + b"\x04\x07/a/call", adding, indexed + b"\xbe"):
        assert reader.read(block).path == b"/a/call"


def test_cache_is_bounded() -> None:
    reader = HeaderReader()
    indexed = hpack.Encoder().encode(PSEUDO[:2])
    for number in range(2000):
        path = f"/{number:05}".encode() * 10
        reader.read(indexed + b"\x04" + bytes([len(path)]) + path)
    cached = reader._cache
    assert len(cached) > 10
    assert sum(len(block) + len(headers.path) for block, headers in cached.items()) < MAX_CACHED_BYTES
    large = indexed + b"\x04\x7f\x80\x3e" + b"/" * (127 + 62 * 128)
    assert reader.read(large).path.startswith(b"//")
    assert large not in reader._cache


def test_encoded_headers_do_not_depend_on_earlier_blocks() -> None:
    headers = {":status": "200", "content-type": "application/grpc", "grpc-message": "x" * 300}
    decoder = hpack.Decoder()
    for _ in range(2):
        fields = decoder.decode(encode_headers(headers), raw=True)
        assert {name.decode(): value.decode() for name, value in map(tuple, fields)} == headers
    assert not decoder.header_table.dynamic_entries
