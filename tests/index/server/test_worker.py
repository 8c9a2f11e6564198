"""A process of the server with short times and few connections: who is accepted, and who is closed."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import pytest

from opmkit.index.server import acceptor
from opmkit.index.server.ports import ReservedPort
from opmkit.index.server.service import LoadedBackend
from opmkit.index.server.settings import ConnectionLimits, ServerSettings, TlsFiles
from opmkit.index.server.supervisor import WorkerContext
from opmkit.index.server.worker import Worker
from tests.kit.certificates import certificate_authority, server_certificate
from tests.kit.h2peer import Peer
from tests.kit.server import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def listening(limits: ConnectionLimits, tls: TlsFiles | None = None) -> Iterator[int]:
    """Run a listener without a catalog in a thread, and yield its port."""
    stopped, stop = os.pipe()
    ready, told = os.pipe()
    with ReservedPort(0) as port:
        listener = Worker(port.number, ServerSettings(grace=0, limits=limits, tls=tls))
        loaded = LoadedBackend(None, lambda name, request: request)  # type: ignore[arg-type]
        running = threading.Thread(
            target=listener.run, args=(lambda: nullcontext(loaded), WorkerContext(stopped, False, told))
        )
        running.start()
        os.read(ready, 1)
        try:
            yield port.number
        finally:
            os.close(stop)
            running.join()
            for descriptor in (stopped, ready, told):
                os.close(descriptor)


def is_closed(connection: socket.socket) -> bool:
    """Wait for the end of a connection."""
    connection.settimeout(PATIENCE)
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def test_idle_connections_are_closed() -> None:
    with listening(ConnectionLimits(idle=0.2, greeting=0.2)) as port, Peer(port) as peer:
        peer.greet()
        peer.ask(1, "/grpc.health.v1.Health/Check")
        assert peer.answer(1)[1] == {b"grpc-status": b"0"}
        assert peer.end() == 0


def test_connections_are_idle_earlier_where_many_are_open() -> None:
    limits = ConnectionLimits(connections=4, idle=3600, crowded_idle=0.2, greeting=0.3)
    with (
        listening(limits) as port,
        Peer(port) as first,
        Peer(port) as second,
        Peer(port) as third,
        Peer(port) as fourth,
    ):
        for peer in (first, second, third, fourth):
            peer.greet()
        assert first.end() == 0


def test_a_client_that_does_not_begin_is_closed() -> None:
    with listening(ConnectionLimits(greeting=0.2)) as port, socket.create_connection(("127.0.0.1", port)) as silent:
        assert is_closed(silent)


def test_a_tls_handshake_that_does_not_end_is_closed(tmp_path: Path) -> None:
    server = server_certificate(tmp_path, certificate_authority(tmp_path))
    tls = TlsFiles(server.certificate, server.key)
    with (
        listening(ConnectionLimits(greeting=0.2), tls) as port,
        socket.create_connection(("127.0.0.1", port)) as silent,
    ):
        assert is_closed(silent)


def test_as_many_connections_as_allowed(caplog: pytest.LogCaptureFixture) -> None:
    with listening(ConnectionLimits(connections=2)) as port, Peer(port) as first, Peer(port) as second:
        for peer in (first, second):
            peer.greet()
            next(peer.frames())
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", port)) as refused:
                assert is_closed(refused)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("soft", "most"), [(1024, 960), (100, 50), (4096, 1000)])
def test_connections_fit_into_the_limit_on_descriptors(soft: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (soft, soft))
    assert acceptor.max_connections(1000) == most


class NoDescriptors(socket.socket):
    """A socket that can accept nothing, because there are no descriptors."""

    tried = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.tried += 1
        raise OSError(24, "Too many open files")


def test_without_descriptors_accepting_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "_RETRY_DELAY", 0.1)
    with NoDescriptors() as unusable:
        unusable.bind(("127.0.0.1", 0))
        asyncio.run(accepting(unusable))
        assert 2 <= unusable.tried <= 6
    assert [record.message for record in caplog.records] == ["cannot accept connections, retrying each second"]


async def accepting(unusable: socket.socket) -> None:
    tested = acceptor.Acceptor(unusable, asyncio.Protocol, [], ConnectionLimits())
    tested.start()
    with socket.create_connection(unusable.getsockname()):
        await asyncio.sleep(0.35)
    tested.close()
