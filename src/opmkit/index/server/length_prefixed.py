"""Records in a file: bytes found by offset and length, and several messages in one that can be told apart."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LENGTH = struct.Struct("<I")
_READ = 1 << 15


class Place(NamedTuple):
    """Where a record is in a file."""

    offset: int
    length: int


def read_record(descriptor: int, place: Place) -> bytes:
    """The whole record."""
    return os.pread(descriptor, place.length, place.offset)


def read_messages(descriptor: int, place: Place) -> Iterator[bytes]:
    """The messages of a record that :func:`framed` has made; little of it is in memory at a time."""
    offset, end = place.offset, place.offset + place.length
    while offset < end:
        data = os.pread(descriptor, min(_READ, end - offset), offset)
        position = 0
        while position + _LENGTH.size <= len(data):
            (length,) = _LENGTH.unpack_from(data, position)
            start = position + _LENGTH.size
            if start + length > len(data):
                break
            yield data[start : start + length]
            position = start + length
        if not position:  # a message that is larger than what was read
            (length,) = _LENGTH.unpack_from(data)
            yield os.pread(descriptor, length, offset + _LENGTH.size)
            position = _LENGTH.size + length
        offset += position


def framed(messages: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces of a record that tells its messages apart."""
    for message in messages:
        yield _LENGTH.pack(len(message)) + message
