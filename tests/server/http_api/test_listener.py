"""Limits of the connections of the web API, in a worker with short timeouts."""

from __future__ import annotations

import gzip
import os
import socket
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import pytest

from opmkit.server.acceptor import ReservedPort
from opmkit.server.http_api.api import CatalogApi
from opmkit.server.http_api.content import CatalogLines
from opmkit.server.http_api.listener import MAX_HEAD
from opmkit.server.service import LoadedBackend
from opmkit.server.settings import ConnectionLimits, ServerSettings
from opmkit.server.supervisor import WorkerContext
from opmkit.server.worker import Worker
from tests.kit.catalogd import ALL, write_catalog
from tests.kit.server import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = b"Host: h\r\n\r\n"
GET = f"GET {ALL} HTTP/1.1\r\n".encode() + HOST
LONG = ConnectionLimits(crowded_idle=PATIENCE)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogLines]:
    root = write_catalog(tmp_path_factory.mktemp("web") / "catalog")
    large = ("".join(f'{{"schema": "acme.large", "text": "{number:08}{"x" * 8000}"}}\n') for number in range(2000))
    (root / "large.json").write_text("".join(large))
    with CatalogLines.write(root) as written:
        yield written


@contextmanager
def running(content: CatalogLines, limits: ConnectionLimits) -> Iterator[int]:
    """Run a worker with the web API in a thread, and yield its port."""
    stopped, stop = os.pipe()
    ready, report_ready = os.pipe()
    with ReservedPort(0) as port, ReservedPort(0) as http_port:
        settings = ServerSettings(grace=0, limits=limits)
        worker = Worker(port.number, settings, (http_port.number, CatalogApi(content)))
        loaded = LoadedBackend(None, lambda name, request: request)  # type: ignore[arg-type]
        context = WorkerContext(stopped, False, report_ready)
        thread = threading.Thread(target=worker.run, args=(lambda: nullcontext(loaded), context))
        thread.start()
        os.read(ready, 1)
        try:
            yield http_port.number
        finally:
            os.close(stop)
            thread.join()
            for descriptor in (stopped, ready, report_ready):
                os.close(descriptor)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def receive(connection: socket.socket) -> bytes:
    """Return all bytes until the server closes the connection."""
    pieces = []
    try:
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)


def receive_line(connection: socket.socket) -> bytes:
    """Return the content of a response, a line."""
    received = b""
    while not received.partition(b"\r\n\r\n")[2].endswith(b"\n"):
        received += connection.recv(4096)
    return received.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("data", [b"", b"GET / HT", GET[:-2], b"GET / HTTP/1.1\r\nA: " + b"a" * 5000])
def test_requests_that_never_end_are_dropped(content: CatalogLines, data: bytes) -> None:
    with running(content, ConnectionLimits(greeting=0.2)) as port, connect(port) as connection:
        connection.sendall(data)
        assert receive(connection) == b""


def test_idle_connections_are_closed_after_a_response(content: CatalogLines) -> None:
    limits = ConnectionLimits(crowded_idle=0.3)
    with running(content, limits) as port, connect(port) as connection:
        connection.sendall(b"GET /none HTTP/1.1\r\n" + HOST)
        assert receive(connection).endswith(b"404 page not found\n")


def test_idle_connections_give_way_to_new_ones(content: CatalogLines) -> None:
    with running(content, ConnectionLimits(connections=2)) as port, connect(port) as first, connect(port) as second:
        for connection in (first, second):
            connection.sendall(b"GET /none HTTP/1.1\r\n" + HOST)
            assert receive_line(connection) == b"404 page not found\n"
        with connect(port) as third:
            third.sendall(b"GET /none HTTP/1.1\r\n" + HOST)
            assert receive_line(third) == b"404 page not found\n"
            assert receive(first) == b""
        second.sendall(b"GET /again HTTP/1.1\r\n" + HOST)
        assert receive_line(second) == b"404 page not found\n"


def test_connections_with_responses_in_progress_do_not_give_way(content: CatalogLines) -> None:
    with running(content, ConnectionLimits(connections=1)) as port, socket.socket() as busy:
        busy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        busy.connect(("127.0.0.1", port))
        busy.sendall(GET)
        assert busy.recv(100)
        with connect(port) as refused:
            assert receive(refused) == b""
        assert busy.recv(100)


def test_clients_that_do_not_read_are_dropped(content: CatalogLines) -> None:
    size = sum(section.length for section in content.everything)
    with running(content, ConnectionLimits(crowded_idle=0.3)) as port, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", port))
        connection.sendall(GET)
        with connect(
            port
        ) as other:  # is answered meanwhile, and closed when it is idle, after the timeout of the first
            other.sendall(b"GET /none HTTP/1.1\r\n" + HOST)
            assert receive(other).endswith(b"404 page not found\n")
        assert len(receive(connection)) < size


def test_pipelined_requests_are_answered_in_order(content: CatalogLines) -> None:
    with running(content, LONG) as port, connect(port) as connection:
        closing = b"Connection: close\r\n"
        connection.sendall(
            b"HEAD /a HTTP/1.1\r\n" + HOST + b"POST /b HTTP/1.1\r\n" + HOST + b"GET /c HTTP/1.1\r\n" + closing + HOST
        )
        received = receive(connection)
    assert [part.split(b" ", 1)[0] for part in received.split(b"HTTP/1.1 ")[1:]] == [b"404", b"405", b"404"]
    assert received.endswith(b"404 page not found\n")


def test_requests_with_content_end_the_connection(content: CatalogLines) -> None:
    with running(content, LONG) as port, connect(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 4\r\n" + HOST + b"GET ")
        received = receive(connection)
    assert received.startswith(b"HTTP/1.1 405 ")
    assert received.count(b"HTTP/1.1 ") == 1


def test_heads_that_are_too_large_are_rejected(content: CatalogLines) -> None:
    with running(content, LONG) as port, connect(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nA: " + b"a" * (2 * MAX_HEAD))
        assert receive(connection).startswith(b"HTTP/1.1 431 ")


def test_large_responses_are_streamed(content: CatalogLines) -> None:
    size = sum(section.length for section in content.everything)
    with running(content, LONG) as port:
        with connect(port) as connection:
            connection.sendall(f"GET {ALL} HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n".encode())
            head, _, plain = receive(connection).partition(b"\r\n\r\n")
        assert b"Content-Encoding" not in head  # since HTTP/1.0 has no chunks
        assert len(plain) == size > 16_000_000
        with connect(port) as connection:
            connection.sendall(f"GET {ALL} HTTP/1.1\r\nAccept-Encoding: gzip\r\nConnection: close\r\n".encode() + HOST)
            head, _, body = receive(connection).partition(b"\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in head
        chunks = []
        while body:
            length, _, body = body.partition(b"\r\n")
            chunks.append(body[: int(length, 16)])
            body = body[int(length, 16) + 2 :]
        assert gzip.decompress(b"".join(chunks)) == plain
