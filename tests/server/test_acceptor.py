"""Acceptor of connections."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from opmkit.server.acceptor import Acceptor
from opmkit.server.settings import ConnectionLimits

if TYPE_CHECKING:
    from collections.abc import Coroutine

    import pytest


def test_connection_that_is_accepted_during_shutdown_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect_and_close() -> bytes:
        loop = asyncio.get_running_loop()
        create_task = loop.create_task

        def close_first(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
            loop.call_soon(acceptor.close)  # runs before the task
            return create_task(coroutine)

        listening = socket.create_server(("127.0.0.1", 0))
        acceptor = Acceptor(listening, asyncio.Protocol, set(), ConnectionLimits())
        acceptor.start()
        reader = create_task(read_from(listening.getsockname()[1]))
        monkeypatch.setattr(loop, "create_task", close_first)
        return await asyncio.wait_for(reader, 20)

    assert asyncio.run(connect_and_close()) == b""


async def read_from(port: int) -> bytes:
    """Return what a client receives until the server closes the connection."""
    with socket.socket() as client:
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", port))
        return await loop.sock_recv(client, 100)
