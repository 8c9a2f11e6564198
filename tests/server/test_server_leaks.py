"""Memory of a server process after calls, cancelled calls and connections."""

from __future__ import annotations

import asyncio
import gc
import sys
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Self

import hpack
import pytest

from opmkit.server.grpc_calls import GrpcDispatcher, MethodHandler
from opmkit.server.http2.connection import Connection
from opmkit.server.http2.frames import PREFACE, Flag, FrameType, pack_frame, settings_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST = b"\0\0\0\0\0"
CALLS = 50
"""Calls of each method at a time."""
ROUNDS = 20


def long_stream() -> Iterator[bytes]:
    """Yield more than the window of a connection."""
    for _ in range(10):
        yield b"x" * 20_000


HANDLERS = {
    "/at/once": MethodHandler(lambda request: (b"response",)),
    "/in/a-thread": MethodHandler(lambda request: lambda: (b"response",)),
    "/a/stream": MethodHandler(lambda request: long_stream()),
}


@pytest.mark.slow
def test_calls_and_connections_leave_no_memory_allocated() -> None:
    growth = asyncio.run(_measure_growth())
    assert growth < ROUNDS * len(HANDLERS), f"{growth} blocks of memory in {ROUNDS * CALLS * len(HANDLERS)} calls"


async def _measure_growth() -> int:
    """Return the number of memory blocks that are allocated in the second half of the calls."""
    connections: set[Connection] = set()
    dispatcher = GrpcDispatcher(HANDLERS, access_log=False)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(partial(Connection, dispatcher.accept, connections), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    before = 0
    async with server, _Client(port) as permanent:
        for number in range(2 * ROUNDS):
            if number == ROUNDS:
                before = _allocated_blocks()
            for path in HANDLERS:
                await permanent.call(path)
                async with _Client(port) as temporary:
                    await temporary.call(path)
            while len(connections) > 1:
                await asyncio.sleep(0)
        return _allocated_blocks() - before


def _allocated_blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


class _Client:
    """A client that makes calls and cancels some of them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._encoder = hpack.Encoder()
        self._streams = count(1, 2)

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(PREFACE + settings_frame({}))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def call(self, path: str) -> None:
        """Start calls, cancel every other one and all streams, and wait for the rest."""
        pending = {stream for stream in islice(self._streams, CALLS) if self._start(stream, path)}
        self._writer.write(pack_frame(FrameType.PING, 0, 0, b"the last"))
        ping_acknowledged = False
        while pending or not ping_acknowledged:
            header = await self._reader.readexactly(9)
            data = await self._reader.readexactly(int.from_bytes(header[:3], "big"))
            if header[3] == FrameType.PING:
                ping_acknowledged = True
            elif header[3] == FrameType.DATA:
                self._writer.write(pack_frame(FrameType.WINDOW_UPDATE, 0, 0, len(data).to_bytes(4, "big")))
            elif header[3] == FrameType.HEADERS and header[4] & Flag.END_STREAM:
                pending.discard(int.from_bytes(header[5:], "big"))

    def _start(self, stream: int, path: str) -> bool:
        """Start a call; return whether it is not cancelled."""
        headers = self._encoder.encode(
            [(":method", "POST"), (":scheme", "http"), (":path", path), ("content-type", "application/grpc")]
        )
        self._writer.write(pack_frame(FrameType.HEADERS, Flag.END_HEADERS, stream, headers))
        self._writer.write(pack_frame(FrameType.DATA, Flag.END_STREAM, stream, REQUEST))
        is_pending = bool(stream % 4 == 1 and path != "/a/stream")
        if not is_pending:
            self._writer.write(pack_frame(FrameType.RST_STREAM, 0, stream, (8).to_bytes(4, "big")))
        return is_pending
