"""A proxy in front of a registry that fails as it is told to."""

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

_PIECE = 64 * 1024
_OWN_HEADERS = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive", "date", "server"})


@dataclass(frozen=True)
class Answer:
    """Answer with this instead of asking the registry."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Reset:
    """Reset the connection after that many bytes of the answer's body (0: before its headers)."""

    after: int = 0


@dataclass(frozen=True)
class ResetUpload:
    """Reset the connection after reading that many bytes of the request's body."""

    after: int = 0


@dataclass(frozen=True)
class Truncate:
    """Close the connection in good order after that many bytes of the body, short of its Content-Length."""

    after: int


@dataclass(frozen=True)
class Corrupt:
    """Flip the bits of the body's byte at that offset."""

    at: int = 0


@dataclass(frozen=True)
class CorruptUpload:
    """Flip the bits of the byte at that offset in the request's body."""

    at: int = 0


@dataclass(frozen=True)
class Trickle:
    """Wait so long before each piece of the answer's body, of so many bytes."""

    size: int
    seconds: float


@dataclass(frozen=True)
class Meanwhile:
    """Do something before the registry gets the request."""

    first: Callable[[], object]


@dataclass(frozen=True)
class Delay:
    """Wait that many seconds before the answer."""

    seconds: float


@dataclass(frozen=True)
class Rewrite:
    """Leave headers of the registry's answer out, or set them."""

    headers: Mapping[str, str | None]


@dataclass(frozen=True)
class Unheard:
    """Let the registry do it, then do something else, and answer that the registry failed."""

    then: Callable[[], object]
    status: int = 500


Action = (
    Answer | Reset | ResetUpload | Truncate | Corrupt | CorruptUpload | Trickle | Meanwhile | Delay | Rewrite | Unheard
)


@dataclass
class Fault:
    """An action for requests whose method and path match (regular expressions, the path from its start).

    The first ``skip`` such requests pass, the next ``times`` ones fail, later ones pass again. Of those that would fail
    only one in ``every`` does.
    """

    method: str
    path: str
    action: Action
    times: int = 1
    skip: int = 0
    every: int = 1
    matched: int = field(default=0, init=False)

    def applies(self, method: str, path: str) -> bool:
        """Whether this request fails; counts it."""
        if not re.fullmatch(self.method, method) or not re.match(self.path, path):
            return False
        self.matched += 1
        failing = self.matched - self.skip
        return 0 < failing <= self.times * self.every and failing % self.every == 0


@dataclass(frozen=True)
class Seen:
    """A request that came in."""

    method: str
    path: str
    headers: Mapping[str, str]


class FaultProxy:
    """Forwards to the plain http registry at ``upstream`` (host:port), except where one of ``faults`` applies."""

    def __init__(self, upstream: str, *faults: Fault) -> None:
        self.upstream = upstream
        self.faults = list(faults)
        self.seen: list[Seen] = []
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
        """How many requests of this method came in whose path matches from its start."""
        return sum(seen.method == method and re.match(path, seen.path) is not None for seen in self.seen)

    def action_for(self, seen: Seen) -> Action | None:
        with self._lock:
            self.seen.append(seen)
            return next((fault.action for fault in self.faults if fault.applies(seen.method, seen.path)), None)


class _Handler(QuietHandler):
    proxy: FaultProxy

    def _serve(self) -> None:
        action = self.proxy.action_for(Seen(self.command, self.path, dict(self.headers)))
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
                elif isinstance(action, Meanwhile):
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
            if isinstance(action, Unheard):
                response.read()
                action.then()
                return self.answer(action.status)
            headers = {k: v for k, v in response.getheaders() if k.lower() not in _OWN_HEADERS}
            if isinstance(action, Rewrite):
                headers = {k: v for k, v in headers.items() if k not in action.headers}
                headers |= {k: v for k, v in action.headers.items() if v is not None}
            length = response.getheader("Content-Length")
            body: Iterator[bytes]
            if length is None:
                whole = response.read()
                length, body = str(len(whole)), iter([whole])
            else:
                body = iter(lambda: response.read(_PIECE), b"")
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
            while left and (piece := self.rfile.read(min(left, _PIECE))):
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
    """The pieces with the bits of the byte at that offset flipped."""
    for piece in pieces:
        if 0 <= at < len(piece):
            yield piece[:at] + bytes([piece[at] ^ 0xFF]) + piece[at + 1 :]
        else:
            yield piece
        at -= len(piece)
