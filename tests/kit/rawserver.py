"""A server that answers with bytes as they are, for responses that no HTTP library sends."""

from __future__ import annotations

import socketserver
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class RawServer:
    """Answers each connection's first request with the pieces of ``reply(request line)`` while the context lasts."""

    def __init__(self, reply: Callable[[str], Iterable[bytes]]) -> None:
        self.connections = 0
        self._stopped = threading.Event()
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                server.connections += 1
                request = self.rfile.readline().decode("latin-1")
                while self.rfile.readline().strip():
                    pass
                with suppress(OSError):
                    for piece in reply(request):
                        if server._stopped.is_set():
                            break
                        self.wfile.write(piece)

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


def endless(piece: bytes, start: bytes = b"", every: float = 0.0) -> Iterator[bytes]:
    """Yield a piece again and again, ``every`` so many seconds."""
    yield start
    while True:
        yield piece
        time.sleep(every)
