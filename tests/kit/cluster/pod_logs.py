"""The kubelet's API for the logs of containers."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.certificates import Certificate


class LogServer:
    """A server of ``/containerLogs/NAMESPACE/POD/CONTAINER``, as a context manager.

    ``find`` returns the file of a container's log, None if the container does not exist.
    """

    def __init__(self, certificate: Certificate, find: Callable[[str, str, str], Path | None]) -> None:
        class Handler(QuietHandler):
            def do_GET(self) -> None:  # noqa: N802 (http.server names it)
                _, _, *names = urlsplit(self.path).path.split("/")
                log = find(*names) if len(names) == 3 else None
                if log is None:
                    return self.answer(404, b"container not found")
                return self.answer(200, log.read_bytes() if log.exists() else b"", {"Content-Type": "text/plain"})

        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate.certificate, certificate.key)
        self._web = WebServer(Handler, tls)

    def __enter__(self) -> Self:
        self._web.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._web.__exit__()

    @property
    def port(self) -> int:
        return int(self._web.host.rpartition(":")[2])
