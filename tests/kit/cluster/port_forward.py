"""TCP proxy from the address of a simulated pod to a port of this machine."""

from __future__ import annotations

import contextlib
import select
import socket
import socketserver
import threading
from typing import Self

_CHUNK_SIZE = 64 * 1024


class PortForward:
    """A proxy from ``address``:``port`` to 127.0.0.1:``target``, as a context manager."""

    def __init__(self, address: str, port: int, target: int) -> None:
        self._listen, self._target = (address, port), target

    def __enter__(self) -> Self:
        target = self._target

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", target)) as upstream:
                    _relay(self.request, upstream)

        self._server = _Server(self._listen, Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False


def _relay(client: socket.socket, upstream: socket.socket) -> None:
    ends = {client: upstream, upstream: client}
    while True:
        for ready in select.select(list(ends), [], [])[0]:
            data = ready.recv(_CHUNK_SIZE)
            if not data:
                return
            ends[ready].sendall(data)


def accepts(port: int) -> bool:
    """Return whether a port of 127.0.0.1 accepts connections."""
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
