"""Server that sends raw bytes, for responses that no HTTP library sends."""

from __future__ import annotations

import socketserver
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class RawServer:
    """A server that responds to the first request of a connection with the chunks of ``reply(request line)``.

    With ``keep_alive`` it responds to all requests of a connection, which have no bodies.
    """

    def __init__(self, reply: Callable[[str], Iterable[bytes]], *, keep_alive: bool = False) -> None:
        self.connections = 0
        self._stopped = threading.Event()
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                server.connections += 1
                with suppress(OSError):
                    while (request := self.rfile.readline().decode("latin-1")) and self._respond(request):
                        pass

            def _respond(self, request: str) -> bool:
                while self.rfile.readline().strip():
                    pass
                for chunk in reply(request):
                    if server._stopped.is_set():
                        break
                    self.wfile.write(chunk)
                return keep_alive

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler, bind_and_activate=True)
        self._server.daemon_threads = True
        self._server.block_on_close = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"


def endless(chunk: bytes, start: bytes = b"", interval: float = 0.0) -> Iterator[bytes]:
    """Yield ``start``, then a chunk every ``interval`` seconds."""
    yield start
    while True:
        yield chunk
        time.sleep(interval)
