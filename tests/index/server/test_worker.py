"""A worker with short timeouts and few connections."""

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
def running_worker(limits: ConnectionLimits, tls: TlsFiles | None = None) -> Iterator[int]:
    """Run a worker without a catalog in a thread, and yield its port."""
    stopped, stop = os.pipe()
    ready, report_ready = os.pipe()
    with ReservedPort(0) as port:
        worker = Worker(port.number, ServerSettings(grace=0, limits=limits, tls=tls))
        loaded = LoadedBackend(None, lambda name, request: request)  # type: ignore[arg-type]
        running = threading.Thread(
            target=worker.run, args=(lambda: nullcontext(loaded), WorkerContext(stopped, False, report_ready))
        )
        running.start()
        os.read(ready, 1)
        try:
            yield port.number
        finally:
            os.close(stop)
            running.join()
            for descriptor in (stopped, ready, report_ready):
                os.close(descriptor)


def is_closed(connection: socket.socket) -> bool:
    """Wait until the server closes a connection, and return True."""
    connection.settimeout(PATIENCE)
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.slow
def test_idle_connections_are_closed() -> None:
    with running_worker(ConnectionLimits(idle=0.2, greeting=0.2)) as port, Peer(port) as peer:
        peer.greet()
        peer.ask(1, "/grpc.health.v1.Health/Check")
        assert peer.answer(1)[1] == {b"grpc-status": b"0"}
        assert peer.end() == 0


@pytest.mark.slow
def test_idle_timeout_is_shorter_if_many_connections_are_open() -> None:
    limits = ConnectionLimits(connections=4, idle=3600, crowded_idle=0.2, greeting=0.3)
    with (
        running_worker(limits) as port,
        Peer(port) as first,
        Peer(port) as second,
        Peer(port) as third,
        Peer(port) as fourth,
    ):
        for peer in (first, second, third, fourth):
            peer.greet()
        assert first.end() == 0


def test_connection_without_a_preface_is_closed() -> None:
    with (
        running_worker(ConnectionLimits(greeting=0.2)) as port,
        socket.create_connection(("127.0.0.1", port)) as silent,
    ):
        assert is_closed(silent)


@pytest.mark.slow
def test_incomplete_tls_handshake_is_closed(tmp_path: Path) -> None:
    server = server_certificate(tmp_path, certificate_authority(tmp_path))
    tls = TlsFiles(server.certificate, server.key)
    with (
        running_worker(ConnectionLimits(greeting=0.2), tls) as port,
        socket.create_connection(("127.0.0.1", port)) as silent,
    ):
        assert is_closed(silent)


def test_connections_beyond_the_limit_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    with running_worker(ConnectionLimits(connections=2)) as port, Peer(port) as first, Peer(port) as second:
        for peer in (first, second):
            peer.greet()
            next(peer.frames())
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", port)) as refused:
                assert is_closed(refused)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("soft", "connections"), [(1024, 960), (100, 50), (4096, 1000)])
def test_connections_fit_into_the_limit_on_descriptors(
    soft: int, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (soft, soft))
    assert acceptor.max_connections(1000) == connections


class FailingSocket(socket.socket):
    """A socket whose accept fails for lack of descriptors."""

    attempts = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.attempts += 1
        raise OSError(24, "Too many open files")


def test_accepting_pauses_without_descriptors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "_RETRY_DELAY", 0.1)
    with FailingSocket() as listening:
        listening.bind(("127.0.0.1", 0))
        asyncio.run(accept_for_a_while(listening))
        assert 2 <= listening.attempts <= 6
    assert [record.message for record in caplog.records] == ["cannot accept connections, retrying each second"]


async def accept_for_a_while(listening: socket.socket) -> None:
    tested = acceptor.Acceptor(listening, asyncio.Protocol, [], ConnectionLimits())
    tested.start()
    with socket.create_connection(listening.getsockname()):
        await asyncio.sleep(0.35)
    tested.close()
