"""Proxy in front of a registry that injects faults."""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_CHUNK_SIZE = 64 * 1024
_HOP_HEADERS = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive", "date", "server"})


@dataclass(frozen=True)
class Answer:
    """Respond with this instead of forwarding the request."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Reset:
    """Reset the connection after that many bytes of the response body (0: before its headers)."""

    after: int = 0


@dataclass(frozen=True)
class ResetUpload:
    """Reset the connection after reading that many bytes of the request body."""

    after: int = 0


@dataclass(frozen=True)
class Truncate:
    """Close the connection cleanly after that many bytes of the response body, before its Content-Length."""

    after: int


@dataclass(frozen=True)
class Corrupt:
    """Flip the bits of the byte at that offset in the response body."""

    at: int = 0


@dataclass(frozen=True)
class CorruptUpload:
    """Flip the bits of the byte at that offset in the request body."""

    at: int = 0


@dataclass(frozen=True)
class Trickle:
    """Send the response body in pieces of ``size`` bytes, waiting ``seconds`` before each."""

    size: int
    seconds: float


@dataclass(frozen=True)
class CallFirst:
    """Call a function, then forward the request."""

    first: Callable[[], object]


@dataclass(frozen=True)
class Delay:
    """Wait that many seconds, then forward the request."""

    seconds: float


@dataclass(frozen=True)
class Rewrite:
    """Set headers of the response, or remove those that are None."""

    headers: Mapping[str, str | None]


@dataclass(frozen=True)
class FailAfterwards:
    """Forward the request, call a function, and respond with an error in place of the registry's response."""

    then: Callable[[], object]
    status: int = 500


Action = (
    Answer
    | Reset
    | ResetUpload
    | Truncate
    | Corrupt
    | CorruptUpload
    | Trickle
    | CallFirst
    | Delay
    | Rewrite
    | FailAfterwards
)


@dataclass
class Fault:
    """An action for requests that match the regular expressions of the method and of the start of the path.

    The first ``skip`` matching requests pass, the next ``times`` ones fail, and later ones pass again. With ``every``,
    only one in so many fails.
    """

    method: str
    path: str
    action: Action
    times: int = 1
    skip: int = 0
    every: int = 1
    matched: int = field(default=0, init=False)

    def applies(self, method: str, path: str) -> bool:
        """Count a matching request and return whether it fails."""
        if not re.fullmatch(self.method, method) or not re.match(self.path, path):
            return False
        self.matched += 1
        failing = self.matched - self.skip
        return 0 < failing <= self.times * self.every and failing % self.every == 0


@dataclass(frozen=True)
class ReceivedRequest:
    """A request that the proxy received."""

    method: str
    path: str
    headers: Mapping[str, str]


class FaultProxy:
    """A proxy to the plain HTTP registry at ``upstream`` (host:port) that applies ``faults``."""

    def __init__(self, upstream: str, *faults: Fault) -> None:
        self.upstream = upstream
        self.faults = list(faults)
        self.seen: list[ReceivedRequest] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._web = WebServer(handler).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._web.__exit__()

    @property
    def host(self) -> str:
        return self._web.host

    def count(self, method: str, path: str = "") -> int:
        """Return the number of received requests with this method and a path that starts with a match."""
        return sum(seen.method == method and re.match(path, seen.path) is not None for seen in self.seen)

    def action_for(self, seen: ReceivedRequest) -> Action | None:
        with self._lock:
            self.seen.append(seen)
            return next((fault.action for fault in self.faults if fault.applies(seen.method, seen.path)), None)


class _Handler(QuietHandler):
    proxy: FaultProxy

    def _serve(self) -> None:
        action = self.proxy.action_for(ReceivedRequest(self.command, self.path, dict(self.headers)))
        match action:
            case Answer():
                self.request_body()
                self.answer(action.status, action.body, dict(action.headers))
            case Reset(after=0):
                self._reset()
            case ResetUpload():
                self.rfile.read(action.after)
                self._reset()
            case _:
                if isinstance(action, Delay):
                    time.sleep(action.seconds)
                elif isinstance(action, CallFirst):
                    action.first()
                self._forward(action)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 (http.server's names)

    def _forward(self, action: Action | None) -> None:
        upstream = http.client.HTTPConnection(self.proxy.upstream, timeout=60)
        try:
            chunked = self.headers.get("Transfer-Encoding") == "chunked"
            body_sent = self._chunks() if chunked else self._body()
            if isinstance(action, CorruptUpload) and body_sent:
                body_sent = _flipped(body_sent, action.at)
            upstream.request(self.command, self.path, body_sent, dict(self.headers), encode_chunked=chunked)
            response = upstream.getresponse()
            if isinstance(action, FailAfterwards):
                response.read()
                action.then()
                return self.answer(action.status)
            headers = {k: v for k, v in response.getheaders() if k.lower() not in _HOP_HEADERS}
            if isinstance(action, Rewrite):
                headers = {k: v for k, v in headers.items() if k not in action.headers}
                headers |= {k: v for k, v in action.headers.items() if v is not None}
            length = response.getheader("Content-Length")
            body: Iterator[bytes]
            if length is None:
                whole = response.read()
                length, body = str(len(whole)), iter([whole])
            else:
                body = iter(lambda: response.read(_CHUNK_SIZE), b"")
            self.send_response(response.status)
            for name, value in {**headers, "Content-Length": length}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self._send(body, action)
        finally:
            upstream.close()

    def _body(self) -> Iterator[bytes] | None:
        length = int(self.headers.get("Content-Length") or 0)
        if not length:
            return None

        def pieces(left: int) -> Iterator[bytes]:
            while left and (piece := self.rfile.read(min(left, _CHUNK_SIZE))):
                left -= len(piece)
                yield piece

        return pieces(length)

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send(self, body: Iterator[bytes], action: Action | None) -> None:
        sent = 0
        for piece in _flipped(body, action.at) if isinstance(action, Corrupt) else body:
            match action:
                case Reset(after=after) | Truncate(after=after) if sent + len(piece) > after:
                    self.wfile.write(piece[: after - sent])
                    return self._reset() if isinstance(action, Reset) else self._close()
                case Trickle(size=size, seconds=seconds):
                    for begin in range(0, len(piece), size):
                        time.sleep(seconds)
                        self.wfile.write(piece[begin : begin + size])
                case _:
                    self.wfile.write(piece)
            sent += len(piece)
        return None

    def _close(self) -> None:
        self.wfile.flush()
        self.close_connection = True

    def _reset(self) -> None:
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


def _flipped(pieces: Iterator[bytes], at: int) -> Iterator[bytes]:
    """Yield the pieces with the bits of the byte at that offset flipped."""
    for piece in pieces:
        if 0 <= at < len(piece):
            yield piece[:at] + bytes([piece[at] ^ 0xFF]) + piece[at + 1 :]
        else:
            yield piece
        at -= len(piece)
