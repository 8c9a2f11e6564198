"""Files with records of length-prefixed messages."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LENGTH = struct.Struct("<I")
_READ_SIZE = 1 << 15


class Span(NamedTuple):
    """The position and size of a record in a file, in bytes."""

    offset: int
    length: int


def read_record(descriptor: int, span: Span) -> bytes:
    """Return a complete record."""
    return os.pread(descriptor, span.length, span.offset)


def read_messages(descriptor: int, span: Span) -> Iterator[bytes]:
    """Yield the messages of a record that consists of the pieces of `prefix_messages`, with bounded memory."""
    offset, end = span.offset, span.offset + span.length
    while offset < end:
        data = os.pread(descriptor, min(_READ_SIZE, end - offset), offset)
        position = 0
        while position + _LENGTH.size <= len(data):
            (length,) = _LENGTH.unpack_from(data, position)
            start = position + _LENGTH.size
            if start + length > len(data):
                break
            yield data[start : start + length]
            position = start + length
        if not position:  # the message is larger than the buffer
            (length,) = _LENGTH.unpack_from(data)
            yield os.pread(descriptor, length, offset + _LENGTH.size)
            position = _LENGTH.size + length
        offset += position


def prefix_messages(messages: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each message with its length before it."""
    for message in messages:
        yield _LENGTH.pack(len(message)) + message
