"""What calls, those that were given up, and connections leave behind in a process of the server: nothing."""

from __future__ import annotations

import asyncio
import gc
import sys
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Self

import hpack

from opmkit.index.server.grpc_calls import GrpcDispatcher
from opmkit.index.server.http2.connection import Connection
from opmkit.index.server.http2.frames import PREFACE, Flag, FrameType, pack_frame, settings_frame
from opmkit.index.server.rpc import MethodHandler

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST = b"\0\0\0\0\0"
CALLS = 50
"""Of a kind at a time."""
ROUNDS = 20


def long() -> Iterator[bytes]:
    """More than a connection has room for."""
    for _ in range(10):
        yield b"x" * 20_000


METHODS = {
    "/at/once": MethodHandler(lambda request: (b"answer",)),
    "/in/a-thread": MethodHandler(lambda request: lambda: (b"answer",)),
    "/a/stream": MethodHandler(lambda request: long()),
}


def test_nothing_stays_of_what_is_over() -> None:
    grown = asyncio.run(_grown())
    assert grown < ROUNDS * len(METHODS), f"{grown} blocks of memory in {2 * ROUNDS * CALLS * len(METHODS)} calls"


async def _grown() -> int:
    """How many blocks of memory are there after many calls that were not there after some."""
    connections: set[Connection] = set()
    calls = GrpcDispatcher(METHODS, access_log=False)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(partial(Connection, calls.accept, connections), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    before = 0
    async with server, _Client(port) as staying:
        for number in range(2 * ROUNDS):
            if number == ROUNDS:
                before = _blocks()
            for path in METHODS:
                await staying.call(path)
                async with _Client(port) as leaving:
                    await leaving.call(path)
            while len(connections) > 1:
                await asyncio.sleep(0)
        return _blocks() - before


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


class _Client:
    """A connection that makes calls, and gives some of them up."""

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
        """Make calls, give up every other one and all streams, and wait for the rest."""
        kept = {stream for stream in islice(self._streams, CALLS) if self._ask(stream, path)}
        self._writer.write(pack_frame(FrameType.PING, 0, 0, b"the last"))
        answered = False
        while kept or not answered:
            header = await self._reader.readexactly(9)
            data = await self._reader.readexactly(int.from_bytes(header[:3], "big"))
            if header[3] == FrameType.PING:
                answered = True
            elif header[3] == FrameType.DATA:
                self._writer.write(pack_frame(FrameType.WINDOW_UPDATE, 0, 0, len(data).to_bytes(4, "big")))
            elif header[3] == FrameType.HEADERS and header[4] & Flag.END_STREAM:
                kept.discard(int.from_bytes(header[5:], "big"))

    def _ask(self, stream: int, path: str) -> bool:
        """Make a call; whether it is not given up."""
        headers = self._encoder.encode(
            {":method": "POST", ":scheme": "http", ":path": path, "content-type": "application/grpc"}
        )
        self._writer.write(pack_frame(FrameType.HEADERS, Flag.END_HEADERS, stream, headers))
        self._writer.write(pack_frame(FrameType.DATA, Flag.END_STREAM, stream, REQUEST))
        kept = bool(stream % 4 == 1 and path != "/a/stream")
        if not kept:
            self._writer.write(pack_frame(FrameType.RST_STREAM, 0, stream, (8).to_bytes(4, "big")))
        return kept
