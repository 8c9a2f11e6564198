"""Binary streams over chunks of bytes."""

from __future__ import annotations

import io
from collections.abc import Generator
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer


def stream_chunks(chunks: Iterator[bytes]) -> BinaryIO:
    """Return a stream that reads from an iterator; closing it closes a generator."""
    return io.BufferedReader(_ChunkReader(chunks))


class _ChunkReader(io.RawIOBase):
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        count = min(len(view), len(self._rest))
        view[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def close(self) -> None:
        if isinstance(self._chunks, Generator):
            self._chunks.close()
        super().close()
