"""Headers of requests and answers, compressed (RFC 7541)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hpack

from opmkit.index.server.http2.frames import ConnectionFailed, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_BYTES = 16_384
"""The size of all headers of a request, compressed or not, that is taken."""
_REMEMBERED = 64

_NO_TABLE = b"\x20"
"""Says that the sender keeps no table: each of our headers is understood without those before it."""


class HeaderReader:
    """The headers of the requests on one connection.

    A client sends the same headers again and again, and then in the same few bytes: they are decoded once, for as long
    as the table stays as it is that those bytes refer to.
    """

    def __init__(self) -> None:
        """Begin with an empty table."""
        self._decoder = hpack.Decoder(max_header_list_size=MOST_BYTES)
        self._known: dict[bytes, Mapping[bytes, bytes]] = {}

    def read(self, block: bytes) -> Mapping[bytes, bytes]:
        """The headers by their names, of several of one name the last; raises ConnectionFailed."""
        known = self._known.get(block)
        if known is not None:
            return known
        entries = self._decoder.header_table.dynamic_entries
        count, newest = len(entries), entries[0] if entries else None
        try:
            headers = dict(self._decoder.decode(block, raw=True))
        except hpack.HPACKError as error:
            raise ConnectionFailed(ErrorCode.COMPRESSION_ERROR, "headers that can't be read") from error
        unchanged = len(entries) == count and (entries[0] if entries else None) is newest  # new entries come first
        if unchanged and len(self._known) < _REMEMBERED:
            self._known[block] = headers
        else:
            self._known.clear()
        return headers


def compressed(headers: Mapping[str, str]) -> bytes:
    """Headers that stand for themselves, on any connection at any time."""
    encoder = hpack.Encoder()
    block: bytes = encoder.encode([(name, value, True) for name, value in headers.items()], huffman=False)
    return _NO_TABLE + block
