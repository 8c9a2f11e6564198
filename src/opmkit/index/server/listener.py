"""One process of a server: it listens on the port, answers calls, and stops when it is told to."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import ExitStack
from typing import TYPE_CHECKING

import grpc

from opmkit.index.server import reflection
from opmkit.index.server.accesslog import logged
from opmkit.index.server.errors import ServerError
from opmkit.index.server.service import HEALTH, REGISTRY, Service, handlers

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from opmkit.index.server.processes import Life
    from opmkit.index.server.service import Loaded
    from opmkit.index.server.settings import ServerSettings, TlsFiles

_OPTIONS = (
    ("grpc.so_reuseport", 1),  # the processes listen on one port, and the kernel deals connections out to them
    ("grpc.max_concurrent_streams", 256),  # a client that calls more at a time waits, each on its connection
    ("grpc.max_receive_message_length", 4 << 20),  # requests are names; answers have no limit
)


class Listener:
    """What listens on a port."""

    def __init__(self, port: int, settings: ServerSettings) -> None:
        """Listen on ``port`` of all addresses, once it runs; raises ServerError for a certificate that is no good."""
        self._port = port
        self._settings = settings
        self._tls = None if settings.tls is None else _certificate(settings.tls)

    def run(self, opened: Callable[[], AbstractContextManager[Loaded]], life: Life) -> None:
        """Answer calls until ``life`` ends, then let those in progress end.

        What they are answered with is ``opened`` when the server listens already, in a thread. Raises ServerError, and
        CatalogError where it can't be opened.
        """
        asyncio.run(self._run(opened, life))

    async def _run(self, opened: Callable[[], AbstractContextManager[Loaded]], life: Life) -> None:
        loop = asyncio.get_running_loop()
        loading: asyncio.Future[Loaded] = loop.create_future()
        stopped = asyncio.Event()
        loop.add_reader(life.end, stopped.set)
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((self._service(loading),))
        self._listen(server)
        await server.start()
        with ExitStack() as stack:
            loading.set_result(await asyncio.to_thread(stack.enter_context, opened()))
            life.ready()
            await stopped.wait()
            loop.remove_reader(life.end)
            await server.stop(self._settings.grace)

    def _service(self, loading: asyncio.Future[Loaded]) -> Service:
        found = handlers(loading) | reflection.handlers([REGISTRY, HEALTH])
        if self._settings.access_log:
            found = {path: logged(path, handler) for path, handler in found.items()}
        return Service(found)

    def _listen(self, server: grpc.aio.Server) -> None:
        address = f"[::]:{self._port}"
        try:
            if self._tls is None:
                server.add_insecure_port(address)
            else:
                server.add_secure_port(address, grpc.ssl_server_credentials([self._tls]))
        except RuntimeError as error:
            raise ServerError(
                f"port {self._port} can't be listened on: {error}", advice="Choose another port with --port."
            ) from error


def _certificate(files: TlsFiles) -> tuple[bytes, bytes]:
    """Key and certificates as gRPC takes them, once it is sure that they belong together: gRPC would only say no."""
    try:
        key, certificate = files.key.read_bytes(), files.certificate.read_bytes()
    except OSError as error:
        raise ServerError(
            f"{error.filename}: {error.strerror}", advice="Check --tls-cert and --tls-key: both are PEM files."
        ) from error
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise ServerError(
            f"{files.certificate} and {files.key} are no certificate and its key: {error}",
            advice="Give a PEM certificate with its chain, and its private key without a password.",
        ) from error
    return key, certificate
