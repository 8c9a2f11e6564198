"""Headers of requests and answers, compressed (RFC 7541), and the rules for them (RFC 9113, section 8)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, cast

import hpack

from opmkit.index.server.http2.frames import ConnectionFailed, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Fields = Sequence[tuple[bytes, bytes]]

MAX_HEADER_BYTES = 16_384
"""The size of all headers of a request, compressed or not, that is taken."""
MAX_CACHED_BYTES = 16_384
"""Size of the cached header blocks of one connection and of the values read from them."""
MAX_CACHED_BLOCK_BYTES = 1024
_ENTRY_OVERHEAD = 256
"""Bytes that a cached block takes in addition to its content, approximately."""

_NO_TABLE = b"\x20"
"""Says that the sender keeps no table: each of our headers is understood without those before it."""

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE = re.compile(rb"[^\0\r\n]*")
_CONNECTION_SPECIFIC = frozenset({b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"})
_REQUIRED_PSEUDO = frozenset({b":method", b":scheme", b":path"})
_PSEUDO = _REQUIRED_PSEUDO | {b":authority"}


class MalformedHeaders(Exception):
    """Headers that are decoded but break the rules for HTTP fields; the stream fails, the connection does not."""


class RequestHeaders(NamedTuple):
    """The headers of a request that the server uses; ``content_length`` is None where the header is missing."""

    method: bytes
    path: bytes
    content_type: bytes
    content_length: int | None


class HeaderReader:
    """Decoder for the header blocks of one connection.

    Clients repeat the same few header blocks. A block that leaves the dynamic table unchanged is decoded once and
    cached until the table, or its maximum size, changes. The cache is bounded by ``MAX_CACHED_BYTES``.
    """

    def __init__(self) -> None:
        """Begin with an empty table."""
        self._decoder = hpack.Decoder(max_header_list_size=MAX_HEADER_BYTES)
        self._cache: dict[bytes, RequestHeaders] = {}
        self._cached_bytes = 0

    def read(self, block: bytes) -> RequestHeaders:
        """Return the headers of a request.

        Raises:
            ConnectionFailed: the block can't be decoded.
            MalformedHeaders: the block is decoded, but is not a valid request.
        """
        cached = self._cache.get(block)
        if cached is not None:
            return cached
        fields, unchanged = self._decode(block)
        headers = parse_request(fields)
        if unchanged:
            self._store(block, headers)
        return headers

    def read_trailers(self, block: bytes) -> None:
        """Decode and check trailers; raises like :meth:`read`."""
        fields, _ = self._decode(block)
        if any(name.startswith(b":") for name, _ in fields):
            raise MalformedHeaders("pseudo-header in trailers")
        check_fields(fields)

    def skip(self, block: bytes) -> None:
        """Decode a block only to update the table; raises ConnectionFailed if it can't be decoded."""
        self._decode(block)

    def _decode(self, block: bytes) -> tuple[Fields, bool]:
        """Return the fields of a block, and whether the table is the same as before; clear the cache if it isn't."""
        table = self._decoder.header_table
        entries = table.dynamic_entries
        count, size, newest = len(entries), table.maxsize, entries[0] if entries else None
        try:
            fields = cast("Fields", self._decoder.decode(block, raw=True))
        except hpack.HPACKError as error:
            raise ConnectionFailed(ErrorCode.COMPRESSION_ERROR, "headers that can't be read") from error
        same_newest = (entries[0] if entries else None) is newest  # entries are added in front, each a new object
        unchanged = same_newest and len(entries) == count and table.maxsize == size
        if not unchanged:
            self._clear()
        return fields, unchanged

    def _clear(self) -> None:
        self._cache.clear()
        self._cached_bytes = 0

    def _store(self, block: bytes, headers: RequestHeaders) -> None:
        size = _ENTRY_OVERHEAD + len(block) + len(headers.method) + len(headers.path) + len(headers.content_type)
        if len(block) > MAX_CACHED_BLOCK_BYTES or size > MAX_CACHED_BYTES:
            return
        if self._cached_bytes + size > MAX_CACHED_BYTES:
            self._clear()
        self._cache[block] = headers
        self._cached_bytes += size


def parse_request(fields: Fields) -> RequestHeaders:
    """Return the headers of a request, of several of one name the last; raises MalformedHeaders."""
    pseudo: dict[bytes, bytes] = {}
    regular: list[tuple[bytes, bytes]] = []
    for name, value in fields:
        if not name.startswith(b":"):
            regular.append((name, value))
        elif regular or name in pseudo or name not in _PSEUDO:
            raise MalformedHeaders("misplaced, repeated or unknown pseudo-header")
        else:
            pseudo[name] = value
    if not all(pseudo.get(name) for name in _REQUIRED_PSEUDO):
        raise MalformedHeaders("missing pseudo-header")
    check_fields(regular)
    _check_values(pseudo.values())
    named = dict(regular)
    return RequestHeaders(
        pseudo[b":method"], pseudo[b":path"], named.get(b"content-type", b""), _content_length(regular)
    )


def check_fields(fields: Fields) -> None:
    """Check names and values of regular fields; raises MalformedHeaders."""
    for name, value in fields:
        if not _NAME.fullmatch(name):
            raise MalformedHeaders("invalid field name")
        if name in _CONNECTION_SPECIFIC or (name == b"te" and value != b"trailers"):
            raise MalformedHeaders("connection-specific field")
    _check_values(value for _, value in fields)


def _check_values(values: Iterable[bytes]) -> None:
    for value in values:
        if not _VALUE.fullmatch(value) or value.strip(b" \t") != value:
            raise MalformedHeaders("invalid field value")


def _content_length(fields: Fields) -> int | None:
    values = {value for name, value in fields if name == b"content-length"}
    if not values:
        return None
    (value, *others) = values
    if others or not value.isdigit() or len(value) > len(str(2**63)):
        raise MalformedHeaders("invalid content length")
    return int(value)


def compressed(headers: Mapping[str, str]) -> bytes:
    """Headers that stand for themselves, on any connection at any time."""
    encoder = hpack.Encoder()
    block: bytes = encoder.encode([(name, value, True) for name, value in headers.items()], huffman=False)
    return _NO_TABLE + block
