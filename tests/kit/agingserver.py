"""HTTP server whose connections die while they are idle, as behind a NAT that forgets them."""

from __future__ import annotations

import socket
import struct
import threading
from typing import TYPE_CHECKING, Self

from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    import ssl

BODY = b'{"tags":["a"]}'


class AgingServer:
    """A server that answers each request with a list of tags, after ``together`` connections are open.

    After `forget`, requests on the connections of before are reset, or are never answered if ``is_silent``.
    """

    def __init__(self, together: int, *, is_silent: bool = False, tls: ssl.SSLContext | None = None) -> None:
        self.connections = self.lost_requests = 0
        self._forgotten = 0
        self._barrier = threading.Barrier(together)
        self._stopped = threading.Event()
        server = self

        class Handler(QuietHandler):
            def setup(self) -> None:
                super().setup()
                server.connections += 1
                self.number = server.connections

            def _serve(self) -> None:
                self.request_body()
                if self.number <= server._forgotten:
                    server.lost_requests += 1
                    if is_silent:
                        server._stopped.wait()
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()
                    self.close_connection = True
                    return
                if not server._forgotten:
                    server._barrier.wait(60)
                self.answer(200, BODY)

            do_GET = do_PUT = do_POST = _serve  # noqa: N815 (http.server's names)

        self._web = WebServer(Handler, tls)

    def __enter__(self) -> Self:
        self._web.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._web.__exit__()

    @property
    def host(self) -> str:
        return self._web.host

    def forget(self) -> None:
        """Forget the connections of before."""
        self._forgotten = self.connections
