"""HTTP server in a thread, for the scripted servers of the tests."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl


class QuietHandler(BaseHTTPRequestHandler):
    """A request handler that keeps connections open, as registries do, and logs nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise each response waits 40 ms for an acknowledgment of its headers

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (http.server)
        pass

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def request_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of clients that close the connection, which many tests do."""


class WebServer:
    """A server on a free loopback port, as a context manager; HTTPS with ``tls``."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> None:
        self._handler = handler
        self._tls = tls

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), self._handler)
        if self._tls:
            self._server.socket = self._tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"
