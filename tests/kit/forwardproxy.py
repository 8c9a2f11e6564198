"""Forward HTTP proxy."""

from __future__ import annotations

import base64
import http.client
import select
import socket
import ssl
import time
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHUNK_SIZE = 64 * 1024


class ForwardProxy:
    """A proxy for plain requests and tunnels (CONNECT); ``seen`` lists the method and host of each, without those that
    are refused; ``requests`` counts all.

    ``routes`` maps hosts to addresses, so that a host can be reachable only by the proxy. ``login``
    (``name:password``) requires basic authentication. With ``context`` the proxy itself uses TLS. If ``refused`` is
    set, every request is rejected with this status; tunnels are opened after ``delay`` seconds.
    """

    def __init__(
        self, routes: Mapping[str, str] | None = None, *, login: str = "", context: ssl.SSLContext | None = None
    ) -> None:
        self.routes = dict(routes or {})
        self.seen: list[tuple[str, str]] = []
        self.refused = self.requests = 0
        self.delay = 0.0
        self._context = context
        self._expected = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None

    def __enter__(self) -> Self:
        self._web = WebServer(type("Handler", (_Handler,), {"proxy": self}), self._context).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._web.__exit__()

    @property
    def host(self) -> str:
        return self._web.host

    def address(self, method: str, host: str) -> tuple[str, int]:
        """Record a request and return the address to connect to."""
        self.seen.append((method, host))
        name, _, port = self.routes.get(host, host).rpartition(":")
        return name, int(port)

    def refusal(self, authorization: str | None) -> int:
        """Return the error status for a Proxy-Authorization header, 0 if access is granted."""
        self.requests += 1
        return self.refused if self._expected in (None, authorization) else 407


class _Handler(QuietHandler):
    proxy: ForwardProxy

    def do_CONNECT(self) -> None:  # noqa: N802 (http.server names it)
        if self._refuse():
            return
        time.sleep(self.proxy.delay)
        with socket.create_connection(self.proxy.address("CONNECT", self.path)) as upstream:
            self.send_response(200)
            self.end_headers()
            self._relay(upstream)
        self.close_connection = True

    def _serve(self) -> None:
        if self._refuse():
            return
        url = urlsplit(self.path)
        upstream = http.client.HTTPConnection(*self.proxy.address(self.command, url.netloc), timeout=60)
        path = url._replace(scheme="", netloc="").geturl()
        upstream.request(self.command, path, self.request_body() or None, dict(self.headers))
        answer = upstream.getresponse()
        body = answer.read()
        self.answer(answer.status, body, {"Content-Length": str(len(body)), **dict(answer.getheaders())})
        upstream.close()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = _serve  # noqa: N815 (http.server's names)

    def _refuse(self) -> bool:
        status = self.proxy.refusal(self.headers.get("Proxy-Authorization"))
        if status:
            self.answer(status, headers={"Proxy-Authenticate": 'Basic realm="proxy"'})
        return bool(status)

    def _relay(self, upstream: socket.socket) -> None:
        ends = {self.connection: upstream, upstream: self.connection}
        while True:
            for ready in select.select(list(ends), [], [])[0]:
                data = ready.recv(_CHUNK_SIZE)
                while isinstance(ready, ssl.SSLSocket) and ready.pending():  # which select does not see
                    data += ready.recv(_CHUNK_SIZE)
                if not data:
                    return
                ends[ready].sendall(data)
