"""Connections that are dead, slow to open, or answer before the end of a request."""

from __future__ import annotations

import io
import itertools
import socket
import socketserver
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, BinaryIO

import pytest

from opmkit.http import streams
from opmkit.http.errors import Unreachable
from opmkit.http.messages import NO_DEADLINE, TimeLimits
from opmkit.http.sessions import HttpSession
from opmkit.http.streams import Backend
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import ImageToolsError, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RegistryRepository, RetryPolicy, transport
from opmkit.imagetools.spec import Descriptor
from opmkit.imagetools.store import LayoutRepository
from tests.kit.agingserver import BODY, AgingServer
from tests.kit.certificates import certificate_authority, server_certificate
from tests.kit.content import noise
from tests.kit.images import small_image

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.kit.opm import Opm

IDLE = 8


@pytest.fixture
def waits() -> list[float]:
    """Return the recorded waits between attempts."""
    return []


def opened(host: str, waits: list[float], ca_file: Path | None = None) -> RegistryRepository:
    options = RegistryOptions(plain_http=ca_file is None, ca_file=ca_file)
    return RegistryClient(options, retry=RetryPolicy(sleep=waits.append)).repository(Reference(host, "team/app"))


@pytest.mark.parametrize("is_silent", [False, True])
def test_dead_idle_connections(monkeypatch: pytest.MonkeyPatch, waits: list[float], *, is_silent: bool) -> None:
    """One of them fails, and the request is repeated at once on a new connection."""
    if is_silent:
        monkeypatch.setattr(transport, "READ_TIMEOUT", 3.0)
    with AgingServer(IDLE, is_silent=is_silent) as server, ThreadPoolExecutor(IDLE) as pool:
        repository = opened(server.host, waits)
        assert list(pool.map(lambda _: list(repository.tags()), range(IDLE))) == [["a"]] * IDLE
        assert server.connections == IDLE
        server.forget()
        assert list(repository.tags()) == ["a"]
        assert (server.lost_requests, server.connections, waits) == (1, IDLE + 1, [])


@pytest.mark.parametrize(("is_repeatable", "requests"), [(True, 1), (False, 0)])
def test_request_that_must_not_arrive_twice(*, is_repeatable: bool, requests: int) -> None:
    with AgingServer(1) as server:
        session = HttpSession(ssl.create_default_context)

        def post() -> bytes:
            with session.send(
                "POST",
                f"http://{server.host}/",
                headers={},
                body=lambda: b"content",
                limits=TimeLimits(60, 60),
                is_repeatable=is_repeatable,
            ) as response:
                return response.read(100, NO_DEADLINE)

        assert post() == BODY
        server.forget()
        if is_repeatable:
            assert post() == BODY
        else:
            with pytest.raises(OSError):
                post()
        assert (server.lost_requests, server.connections) == (1, 1 + requests)
        assert post() == BODY


def test_keepalive() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = Backend().connect_tcp("127.0.0.1", server.getsockname()[1], 60)
        connection: socket.socket = stream.get_extra_info("socket")
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 15
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 9
        stream.close()


@contextmanager
def black_hole(port: int) -> Iterator[str]:
    """Yield an address where connections to the port are not accepted: the queue of the kernel is full."""
    address = "127.0.0.2"
    with ExitStack() as stack:
        try:
            listener = stack.enter_context(socket.socket())
            listener.bind((address, port))
            listener.listen(0)
        except OSError:
            pytest.skip("this system has one loopback address only")
        for _ in range(8):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((address, port))
        yield address


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    resolve = socket.getaddrinfo

    def getaddrinfo(host: bytes, port: int, *arguments: int, **options: int) -> Sequence[object]:
        if host != b"registry.test":
            return resolve(host, port, *arguments, **options)
        families = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in addresses]
        return [
            (family, socket.SOCK_STREAM, 6, "", (address, port, 0, 0)[: 4 if family == socket.AF_INET6 else 2])
            for family, address in zip(families, addresses, strict=True)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def test_first_address_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for the one before, and is tried first from then on. A test that hangs has failed."""
    tried: list[str] = []
    connect = streams._connect

    def record(address: str, port: int, timeout: float | None) -> object:
        tried.append(address)
        return connect(address, port, timeout)

    with socket.create_server(("127.0.0.1", 0)) as server, black_hole(port := server.getsockname()[1]) as lost:
        resolve_to(monkeypatch, lost, "127.0.0.1")
        monkeypatch.setattr(streams, "_connect", record)
        backend = Backend()
        for _ in range(2):
            stream = backend.connect_tcp("registry.test", port, 3600)
            assert stream.get_extra_info("server_addr")[0] == "127.0.0.1"
            stream.close()
        assert tried[:3] == [lost, "127.0.0.1", "127.0.0.1"]


def test_no_address_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    resolve_to(monkeypatch, "127.0.0.1", "::1")
    with pytest.raises(Unreachable, match=r"refused|requested address"):
        Backend().connect_tcp("registry.test", port, 60)


@pytest.mark.parametrize(
    ("found", "order"),
    [
        (("::1", "::2", "127.0.0.1", "127.0.0.2", "127.0.0.3"), ("::1", "127.0.0.1", "::2", "127.0.0.2", "127.0.0.3")),
        (("127.0.0.1", "127.0.0.1"), ("127.0.0.1",)),
    ],
)
def test_addresses_alternate(monkeypatch: pytest.MonkeyPatch, found: tuple[str, ...], order: tuple[str, ...]) -> None:
    resolve_to(monkeypatch, *found)
    assert tuple(streams._addresses("registry.test", 1)) == order


class EarlyServer:
    """A registry that answers an upload when it has read the header, and never reads the body."""

    def __init__(self, status: str, tls: ssl.SSLContext | None = None) -> None:
        self.uploads = 0
        self._stopped = threading.Event()
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while request := self.rfile.readline():
                    while self.rfile.readline().strip():
                        pass
                    if request.startswith((b"PUT", b"PATCH")):
                        server.uploads += 1
                        self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                        self.wfile.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
                        server._stopped.wait()
                    elif request.startswith(b"POST"):
                        self.wfile.write(b"HTTP/1.1 202 Accepted\r\nLocation: /u\r\nContent-Length: 0\r\n\r\n")
                    else:
                        self.wfile.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads, self._server.block_on_close = True, False
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> EarlyServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"


LARGE = Descriptor("application/octet-stream", f"sha256:{'0' * 64}", 30 << 20)


def zeros() -> BinaryIO:
    return io.BytesIO(bytes(LARGE.size))


@pytest.mark.parametrize("is_encrypted", [False, True])
@pytest.mark.parametrize(
    ("status", "message", "uploads"),
    [
        ("413 Content Too Large", "returned 413", 2),
        ("403 Forbidden", "access denied", 1),
        ("401 Unauthorized", "authentication", 1),
        ("429 Too Many Requests", "returned 429 .*6 attempts", 6),
        ("503 Service Unavailable", "returned 503 .*6 attempts", 6),
    ],
)
def test_answer_before_the_end_of_an_upload(
    tmp_path: Path, waits: list[float], status: str, message: str, uploads: int, *, is_encrypted: bool
) -> None:
    """The answer is read at once: writing on would time out."""
    tls = ca_file = None
    if is_encrypted:
        authority = certificate_authority(tmp_path)
        certificate = server_certificate(tmp_path, authority)
        tls, ca_file = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), authority.certificate
        tls.load_cert_chain(certificate.certificate, certificate.key)
    with EarlyServer(status, tls) as server:
        with pytest.raises(ImageToolsError, match=message):
            opened(server.host, waits, ca_file).put_blob(LARGE, zeros)
        assert server.uploads == uploads


def test_command_reports_an_answer_before_the_end_of_an_upload(opm: Opm, tmp_path: Path) -> None:
    image = small_image(tmp_path, {"a": noise(16 << 20)})
    copy_image(image, LayoutRepository(tmp_path / "layout"), "1")
    with EarlyServer("403 Forbidden") as server:
        done = opm.attempt("image", "copy", f"oci:{tmp_path / 'layout'}:1", f"{server.host}/app:1", "--use-http")
    assert done.returncode == 1
    assert "access denied (Forbidden)" in done.stderr


ALERTS = {40: "handshake failure", 70: "protocol version", 80: "internal error", 112: "unrecognized name"}


@pytest.mark.parametrize(("code", "name"), ALERTS.items())
def test_fatal_alert_is_not_repeated(waits: list[float], code: int, name: str) -> None:
    connections = itertools.count()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            next(connections)
            self.request.recv(1 << 16)
            self.request.sendall(bytes([21, 3, 3, 0, 2, 2, code]))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        host = f"127.0.0.1:{server.server_address[1]}"
        repository = RegistryClient(retry=RetryPolicy(sleep=waits.append)).repository(Reference(host, "app"))
        with pytest.raises(ImageToolsError, match=f"{host} refused the TLS connection: {name}$") as caught:
            repository.resolve("1")
        server.shutdown()
    assert (next(connections), waits) == (1, [])
    assert "_ssl.c" not in str(caught.value)


def test_server_that_only_closes_connections(waits: list[float]) -> None:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        host = f"127.0.0.1:{server.server_address[1]}"
        repository = RegistryClient(retry=RetryPolicy(sleep=waits.append)).repository(Reference(host, "app"))
        with pytest.raises(RegistryUnavailable, match="connection lost; gave up after 6 attempts"):
            repository.resolve("1")
        server.shutdown()
