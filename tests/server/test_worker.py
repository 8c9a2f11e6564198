"""A worker with short timeouts and few connections."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import hpack
import pytest

from opmkit.index.errors import CatalogError
from opmkit.server import acceptor
from opmkit.server.acceptor import ReservedPort, Use
from opmkit.server.http2.connection import Connection
from opmkit.server.http2.frames import PREFACE, ErrorCode, Flag, FrameType, pack_frame, settings_frame
from opmkit.server.service import LoadedBackend, method_handlers
from opmkit.server.settings import ConnectionLimits, ServerSettings, TlsFiles
from opmkit.server.supervisor import WorkerContext
from opmkit.server.worker import Worker
from tests.kit.certificates import certificate_authority, server_certificate
from tests.kit.h2peer import MemoryTransport, Peer
from tests.kit.server import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVING = b"\x08\x01"


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


def test_idle_connections_give_way_to_new_ones() -> None:
    with (
        running_worker(ConnectionLimits(connections=3)) as port,
        Peer(port) as used,
        Peer(port) as greeted,
        socket.create_connection(("127.0.0.1", port)) as silent,
    ):
        used.greet()
        assert check_health(used, 1)
        greeted.greet()
        next(greeted.frames())
        with Peer(port) as first:
            assert greeted.end() == ErrorCode.NO_ERROR
            first.greet()
            assert check_health(first, 1)
            with Peer(port) as second:
                assert is_closed(silent)  # it is new, but has no call
                second.greet()
                assert check_health(second, 1)
                assert check_health(first, 3)
        assert check_health(used, 3)


@pytest.mark.parametrize(
    ("greeted", "calls", "age", "use"),
    [(False, 0, 2.0, Use.SILENT), (True, 0, 0.0, Use.UNUSED), (False, 0, 0.0, Use.NEW), (True, 1, 9.0, Use.USED)],
)
def test_order_in_which_connections_give_way(greeted: bool, calls: int, age: float, use: Use) -> None:
    connection = Connection(lambda *_: None, set())  # type: ignore[arg-type]
    connection.connection_made(MemoryTransport())
    if greeted:
        connection.data_received(PREFACE + settings_frame({}))
    if calls:
        connection._inbound.open(1)
    assert connection.use(time.monotonic() + age)[0] is use


def test_connections_with_calls_do_not_give_way(caplog: pytest.LogCaptureFixture) -> None:
    with running_worker(ConnectionLimits(connections=2)) as port, Peer(port) as first, Peer(port) as second:
        for peer in (first, second):
            peer.greet()
            peer.send(pack_frame(FrameType.HEADERS, Flag.END_HEADERS, 1, peer.headers()))  # its message is missing
            assert check_health(peer, 3)
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", port)) as refused:
                assert is_closed(refused)
        assert check_health(first, 5)
    assert [record.message for record in caplog.records] == ["connection refused: too many are open"]


def check_health(peer: Peer, stream: int) -> bool:
    peer.ask(stream, "/grpc.health.v1.Health/Check")
    content, _ = peer.answer(stream)
    return content.endswith(SERVING)


def test_calls_that_wait_for_an_index_that_cannot_be_opened_fail() -> None:
    stopped, stop = os.pipe()
    ready, report_ready = os.pipe()
    is_asked = threading.Event()
    failures: list[CatalogError] = []

    @contextmanager
    def open_backend() -> Iterator[LoadedBackend]:
        assert is_asked.wait(PATIENCE)
        raise CatalogError("index.db: file is not a database")
        yield

    with ReservedPort(0) as port:
        worker = Worker(port.number, ServerSettings(grace=PATIENCE))

        def run() -> None:
            try:
                worker.run(open_backend, WorkerContext(stopped, False, report_ready))
            except CatalogError as error:
                failures.append(error)

        running = threading.Thread(target=run)
        running.start()
        with connect(port.number) as peer:
            peer.greet()
            peer.ask(1)
            assert check_health(peer, 3)
            is_asked.set()
            frames = [frame for frame in peer.frames() if frame.stream == 1]
        running.join(PATIENCE)
    assert not running.is_alive()
    trailers = dict(hpack.Decoder().decode(frames[-1].payload, raw=True))
    assert (len(frames), trailers[b"grpc-status"]) == (1, b"14")
    assert trailers[b"grpc-message"] == b"the index cannot be opened: index.db: file is not a database"
    assert [error.message for error in failures] == ["index.db: file is not a database"]
    for descriptor in (stopped, stop, ready, report_ready):
        os.close(descriptor)


def connect(port: int) -> Peer:
    """Return a client when the worker listens."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return Peer(port)
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_health_is_not_serving_after_the_index_could_not_be_opened() -> None:
    loading: Future[LoadedBackend] = Future()
    check = method_handlers(loading, ())["/grpc.health.v1.Health/Check"].handle
    assert check(b"") == (SERVING,)
    loading.set_exception(CatalogError("broken"))
    assert check(b"") == (b"\x08\x02",)


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
