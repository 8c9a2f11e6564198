"""Header fields: compression (RFC 7541) and validation (RFC 9113, section 8)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, cast

import hpack
from msgspec import Struct

from opmkit.index.grpc_api import ACKNOWLEDGEMENT
from opmkit.server.http2.frames import ConnectionFailed, ErrorCode, Flag, Frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Fields = Sequence[tuple[bytes, bytes]]


MAX_HEADER_BYTES = 16_384
"""Size of all headers of a request, compressed or not."""
MAX_CACHED_BYTES = 16_384
"""Size of the cached header blocks of one connection and of the values read from them."""
MAX_CACHED_BLOCK_BYTES = 1024
_ENTRY_OVERHEAD = 256
"""Approximate bytes of memory for a cached block in addition to its content."""

_EMPTY_TABLE = b"\x20"
"""Sets the size of the dynamic table to 0, so that each header block can be decoded without earlier ones."""

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE = re.compile(rb"[^\0\r\n]*")
_CONNECTION_SPECIFIC = frozenset({b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"})
_ACKNOWLEDGEMENT = tuple(text.encode() for text in ACKNOWLEDGEMENT)
_REQUIRED_PSEUDO = frozenset({b":method", b":scheme", b":path"})
_PSEUDO = _REQUIRED_PSEUDO | {b":authority"}


class MalformedHeaders(Exception):
    """Headers that were decoded but are invalid, which ends the stream but not the connection."""


class RequestHeaders(NamedTuple):
    """The headers of a request that the server uses.

    ``content_length`` is None if the header is missing. ``acknowledged`` is whether the client accepts that
    experimental methods may change.
    """

    method: bytes
    path: bytes
    content_type: bytes
    content_length: int | None
    acknowledged: bool = False


class HeaderReader:
    """Decoder for the header blocks of one connection.

    Clients repeat the same few header blocks. A block that leaves the dynamic table unchanged is decoded once and
    cached until the table, or its maximum size, changes. The cache is bounded by ``MAX_CACHED_BYTES``.
    """

    def __init__(self) -> None:
        """Start with an empty table."""
        self._decoder = hpack.Decoder(max_header_list_size=MAX_HEADER_BYTES)
        self._cache: dict[bytes, RequestHeaders] = {}
        self._cached_bytes = 0

    def read(self, block: bytes) -> RequestHeaders:
        """Return the headers of a request.

        Raises:
            ConnectionFailed: The block cannot be decoded.
            MalformedHeaders: The headers are not those of a valid request.
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
        """Decode a block only to update the table; raises ConnectionFailed if it cannot be decoded."""
        self._decode(block)

    def _decode(self, block: bytes) -> tuple[Fields, bool]:
        """Return the fields of a block, and whether the table is unchanged; clear the cache if it is not."""
        table = self._decoder.header_table
        entries = table.dynamic_entries
        count, size, newest = len(entries), table.maxsize, entries[0] if entries else None
        try:
            fields = cast("Fields", self._decoder.decode(block, raw=True))
        except hpack.HPACKError as error:
            raise ConnectionFailed(ErrorCode.COMPRESSION_ERROR, "invalid header compression") from error
        same_newest = (entries[0] if entries else None) is newest  # entries are inserted at the front
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
    """Return the headers of a request, the last of those with the same name; raises MalformedHeaders."""
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
        pseudo[b":method"],
        pseudo[b":path"],
        named.get(b"content-type", b""),
        _content_length(regular),
        _is_acknowledged(regular),
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


def _is_acknowledged(fields: Fields) -> bool:
    """Return whether the first of the fields for it acknowledges experimental methods."""
    return next((value for name, value in fields if name == _ACKNOWLEDGEMENT[0]), b"") == _ACKNOWLEDGEMENT[1]


def _content_length(fields: Fields) -> int | None:
    values = {value for name, value in fields if name == b"content-length"}
    if not values:
        return None
    (value, *others) = values
    if others or not value.isdigit() or len(value) > len(str(2**63)):
        raise MalformedHeaders("invalid content length")
    return int(value)


def encode_headers(headers: Mapping[str, str]) -> bytes:
    """Return a header block that is valid on any connection at any time."""
    encoder = hpack.Encoder()
    block: bytes = encoder.encode([(name, value, True) for name, value in headers.items()], huffman=False)
    return _EMPTY_TABLE + block


MAX_CONTINUATIONS = 32
"""CONTINUATION frames of one header block."""


class HeaderBlock(Struct):
    """A header block on a stream; ``ended`` means that no content follows it."""

    stream: int
    ended: bool
    data: bytes
    continuations: int = 0


class HeaderBlocks:
    """Assembler of the header blocks of one connection, which do not overlap."""

    def __init__(self) -> None:
        """Wait for a HEADERS frame."""
        self.incomplete: HeaderBlock | None = None

    def start(self, frame: Frame) -> HeaderBlock | None:
        """Add a HEADERS frame; return its block if it is complete."""
        block = HeaderBlock(frame.stream, bool(frame.flags & Flag.END_STREAM), frame.content())
        if len(block.data) > MAX_HEADER_BYTES:
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "headers are too large")
        if frame.flags & Flag.END_HEADERS:
            return block
        self.incomplete = block
        return None

    def resume(self, frame: Frame) -> HeaderBlock | None:
        """Add a CONTINUATION frame; return its block if it is complete."""
        block = self.incomplete
        if block is None or block.stream != frame.stream:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "unexpected CONTINUATION frame")
        if block.continuations == MAX_CONTINUATIONS:
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "too many CONTINUATION frames")
        if len(block.data) + len(frame.payload) > MAX_HEADER_BYTES:
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "headers are too large")
        block.data += frame.payload
        block.continuations += 1
        if not frame.flags & Flag.END_HEADERS:
            return None
        self.incomplete = None
        return block
