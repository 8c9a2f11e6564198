"""One process of a server: it listens on the port, answers calls, and stops when it is told to."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError
from opmkit.index.server import reflection, service
from opmkit.index.server.acceptor import Acceptor
from opmkit.index.server.grpc_calls import GrpcDispatcher
from opmkit.index.server.http2.connection import Connection
from opmkit.index.server.ports import listening
from opmkit.index.server.service import HEALTH, REGISTRY
from opmkit.index.server.tls import tls_context

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from opmkit.index.server.backend import QueryBackend
    from opmkit.index.server.service import Loaded
    from opmkit.index.server.settings import ServerSettings
    from opmkit.index.server.supervisor import WorkerContext

_CHECK_INTERVAL = 5.0
"""Seconds between two checks for connections that are idle."""


class Worker:
    """What listens on a port."""

    def __init__(self, port: int, settings: ServerSettings) -> None:
        """Listen on ``port`` of all addresses, once it runs; raises ServerError for a certificate that is no good."""
        self._port = port
        self._settings = settings
        self._tls = None if settings.tls is None else tls_context(settings.tls)
        self._connections: set[Connection] = set()

    def run(self, opened: Callable[[], AbstractContextManager[Loaded]], life: WorkerContext) -> None:
        """Answer calls until ``life`` ends, then let those in progress end.

        What they are answered with is ``opened`` when the server listens already, in a thread. Raises ServerError, and
        CatalogError where it can't be opened.
        """
        asyncio.run(self._run(opened, life))

    async def _run(self, opened: Callable[[], AbstractContextManager[Loaded]], life: WorkerContext) -> None:
        loop = asyncio.get_running_loop()
        loading: Future[Loaded] = Future()
        calls = GrpcDispatcher(
            service.methods(loading) | reflection.methods([REGISTRY, HEALTH]), logged=self._settings.access_log
        )
        stopped = asyncio.Event()
        loop.add_reader(life.end, stopped.set)
        connect = partial(Connection, calls.accept, self._connections)
        acceptor = Acceptor(listening(self._port), connect, self._connections, self._settings.limits, self._tls)
        acceptor.start()
        checking = loop.create_task(self._check(acceptor))
        with ExitStack() as stack:
            loaded = await asyncio.to_thread(stack.enter_context, opened())
            loading.set_result(loaded)
            life.ready()
            if life.first:
                loop.run_in_executor(None, _prepare_list, loaded.answers)
            await stopped.wait()
            loop.remove_reader(life.end)
            acceptor.close()
            await self._finish()
            checking.cancel()

    async def _check(self, acceptor: Acceptor) -> None:
        """Close idle connections, for ever."""
        limits = self._settings.limits
        crowded = replace(limits, idle=min(limits.idle, limits.crowded_idle))
        while True:
            await asyncio.sleep(min(_CHECK_INTERVAL, limits.greeting))
            now = asyncio.get_running_loop().time()
            applied = crowded if acceptor.crowded else limits
            for connection in list(self._connections):
                connection.check(now, applied)

    async def _finish(self) -> None:
        """Let every connection end by itself, and those that don't in time."""
        for connection in list(self._connections):
            connection.finish()
        end = asyncio.get_running_loop().time() + self._settings.grace
        while self._connections and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.02)
            for connection in [one for one in self._connections if one.lingers()]:
                connection.abort()
        for connection in list(self._connections):
            connection.abort()


def _prepare_list(answers: QueryBackend) -> None:
    """Make what clusters ask for first and what takes longest, before they do; what is wrong they will be told then."""
    with suppress(CatalogError, OSError):
        found = answers.list_bundles()
        if callable(found):
            found()
