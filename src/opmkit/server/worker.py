"""Worker process of a server: it listens on the port, answers calls, and stops gracefully."""

from __future__ import annotations

import asyncio
import ssl
import time
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import cache, partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opmkit.core.errors import OpmkitError
from opmkit.core.files import read_limited
from opmkit.core.hints import Hint
from opmkit.index.grpc_api import ALL_METHODS, METHODS
from opmkit.index.hint_terms import IndexSetting
from opmkit.server.acceptor import Acceptor, bind_shared
from opmkit.server.grpc_calls import GrpcDispatcher, MethodHandler, RpcError, StatusCode
from opmkit.server.http2.connection import Connection
from opmkit.server.http2.sender import BlockedStreams
from opmkit.server.service import HEALTH_SERVICE, method_handlers
from opmkit.server.settings import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from grpc_reflection.v1alpha.reflection import ReflectionServicer

    from opmkit.server.backend import QueryBackend
    from opmkit.server.http_api.api import CatalogApi
    from opmkit.server.http_api.listener import HttpListener
    from opmkit.server.service import LoadedBackend
    from opmkit.server.settings import ServerSettings, TlsFiles
    from opmkit.server.supervisor import WorkerContext

    OpenBackend = Callable[[], AbstractContextManager[LoadedBackend]]


_TIMEOUT_INTERVAL = 5.0
"""Seconds between two checks for idle connections."""
_DRAIN_INTERVAL = 0.02


class Worker:
    """A process that listens on a reserved port."""

    def __init__(
        self,
        port: int,
        settings: ServerSettings,
        http: tuple[int, CatalogApi] | None = None,
        *,
        experimental: bool = False,
    ) -> None:
        """Prepare to listen.

        Args:
            port: The port on all addresses.
            settings: The settings of the server.
            http: The port of the web API, and the API.
            experimental: Whether the backend has the experimental methods.

        Raises:
            ServerError: The certificate is invalid.
        """
        self._methods = tuple((ALL_METHODS if experimental else METHODS).values())
        self._http = http
        self._http_tls = None if http is None or settings.tls is None else tls_context(settings.tls, "http/1.1")
        self._port = port
        self._settings = settings
        self._tls = None if settings.tls is None else tls_context(settings.tls)
        self._connections: set[Connection] = set()

    def run(self, open_backend: OpenBackend, context: WorkerContext) -> None:
        """Answer calls until ``context`` requires to stop, then finish those in progress.

        The backend is opened in a thread while the server already listens.

        Raises:
            ServerError: The port cannot be used.
            CatalogError: The backend cannot be opened.
        """
        asyncio.run(self._run(open_backend, context))

    async def _run(self, open_backend: OpenBackend, context: WorkerContext) -> None:
        loop = asyncio.get_running_loop()
        loading: Future[LoadedBackend] = Future()
        services = dict.fromkeys([*(method.service for method in self._methods), HEALTH_SERVICE])
        handlers = method_handlers(loading, self._methods) | reflection_handlers(list(services))
        dispatcher = GrpcDispatcher(handlers, access_log=self._settings.access_log)
        stopped = asyncio.Event()
        loop.add_reader(context.stop_descriptor, stopped.set)
        connect = partial(Connection, dispatcher.accept, self._connections, BlockedStreams())
        limits, port = self._settings.limits, bind_shared(self._port)
        acceptor = Acceptor(port, connect, self._connections, limits, self._tls, close_idle=self._close_idle)
        acceptor.start()
        listener = self._http_listener()
        if listener is not None:
            listener.start()
        timeouts = loop.create_task(self._enforce_timeouts(acceptor))
        with ExitStack() as stack:
            try:
                try:
                    loaded = await asyncio.to_thread(stack.enter_context, open_backend())
                except Exception as error:
                    loading.set_exception(error)  # calls wait for it in threads, which the loop waits for when it ends
                    raise
                loading.set_result(loaded)
                context.report_ready()
                if context.first:
                    loop.run_in_executor(None, _prepare_bundle_list, loaded.backend)
                await stopped.wait()
            finally:
                loop.remove_reader(context.stop_descriptor)
                acceptor.close()
                await asyncio.gather(self._drain(), *([listener.stop()] if listener is not None else []))
                timeouts.cancel()

    def _http_listener(self) -> HttpListener | None:
        if self._http is None:
            return None
        from opmkit.server.http_api.listener import HttpListener

        port, api = self._http
        return HttpListener(bind_shared(port), api, self._settings, self._http_tls)

    def _close_idle(self) -> bool:
        """Close the connection without a call in progress that is least in use; return whether there was one."""
        idle = [connection for connection in self._connections if connection.is_idle]
        if not idle:
            return False
        now = time.monotonic()
        min(idle, key=lambda connection: connection.use(now)).give_way()
        return True

    async def _enforce_timeouts(self, acceptor: Acceptor) -> None:
        """Close idle connections, until cancelled."""
        limits = self._settings.limits
        crowded_limits = replace(limits, idle=min(limits.idle, limits.crowded_idle))
        while True:
            await asyncio.sleep(min(_TIMEOUT_INTERVAL, limits.greeting))
            now = asyncio.get_running_loop().time()
            applied = crowded_limits if acceptor.is_crowded else limits
            for connection in list(self._connections):
                connection.enforce_timeouts(now, applied)

    async def _drain(self) -> None:
        """Finish all connections gracefully, and abort those that take too long."""
        for connection in list(self._connections):
            connection.drain()
        end = asyncio.get_running_loop().time() + self._settings.grace
        while self._connections and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(_DRAIN_INTERVAL)
            for connection in [each for each in self._connections if each.is_delivered()]:
                connection.abort()
        for connection in list(self._connections):
            connection.abort()


def _prepare_bundle_list(backend: QueryBackend) -> None:
    """Compute the list of bundles, the slowest response, since clusters request it first.

    Errors are ignored here: calls will return them.
    """
    with suppress(OpmkitError, OSError, ValueError):
        reply = backend.list_bundles()
        if callable(reply):
            reply()


def tls_context(files: TlsFiles, protocol: str = "h2") -> ssl.SSLContext:
    """Return the TLS context of a server for a protocol; raises ServerError for files that cannot be used together."""
    for path in (files.certificate, files.key):
        try:
            read_limited(path)
        except OSError as error:  # errors of OpenSSL do not name the file
            raise ServerError(
                f"{path}: {error.strerror}",
                hint=Hint("check {} and {}: both are PEM files", IndexSetting.TLS_CERT, IndexSetting.TLS_KEY),
            ) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols([protocol])
    try:
        context.load_cert_chain(files.certificate, files.key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise ServerError(
            f"{files.certificate}, {files.key}: invalid certificate or key: {error}",
            hint="give a PEM certificate with its chain, and its private key without a password",
        ) from error
    return context


V1ALPHA, V1 = "grpc.reflection.v1alpha", "grpc.reflection.v1"
_METHOD = "ServerReflection/ServerReflectionInfo"


def reflection_handlers(services: Sequence[str]) -> dict[str, MethodHandler]:
    """Return the handlers of both versions by path, which describe ``services`` and reflection itself."""
    names = [*services, *(f"{package}.ServerReflection" for package in (V1ALPHA, V1))]
    servicer = cache(partial(_create_servicer, names))

    def handle(request: bytes) -> Callable[[], list[bytes]]:
        return lambda: _reflect(servicer(), request)

    return {f"/{package}.{_METHOD}": MethodHandler(handle, client_streaming=True) for package in (V1ALPHA, V1)}


def _reflect(servicer: ReflectionServicer, request: bytes) -> list[bytes]:
    from google.protobuf.message import DecodeError
    from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

    try:
        parsed = ServerReflectionRequest.FromString(request)
    except DecodeError as error:
        raise RpcError(StatusCode.INTERNAL, "grpc: error unmarshalling request") from error
    responses = servicer.ServerReflectionInfo(iter([parsed]), None)  # type: ignore[arg-type]
    return [response.SerializeToString() for response in responses]


def _create_servicer(services: list[str]) -> ReflectionServicer:
    """Create the servicer, which takes long enough to wait for the first request."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from grpc_health.v1 import health_pb2
    from grpc_reflection.v1alpha import reflection_pb2
    from grpc_reflection.v1alpha.reflection import ReflectionServicer

    from opmkit.index.grpc_api import file_descriptor, struct_file

    pool = DescriptorPool()
    alpha = FileDescriptorProto.FromString(reflection_pb2.DESCRIPTOR.serialized_pb)
    health = FileDescriptorProto.FromString(health_pb2.DESCRIPTOR.serialized_pb)
    for file in (struct_file(), file_descriptor(), health, alpha, _v1_file(alpha)):
        pool.Add(file)
    return ReflectionServicer(services, pool)


def _v1_file(alpha: FileDescriptorProto) -> FileDescriptorProto:
    """Return the descriptor of v1, which differs from v1alpha only in the package."""
    file = type(alpha)()
    file.CopyFrom(alpha)
    file.ClearField("options")
    file.name, file.package = "grpc/reflection/v1/reflection.proto", V1
    for message in file.message_type:
        for field in filter(lambda field: field.type_name, message.field):
            field.type_name = field.type_name.replace(V1ALPHA, V1)
    for method in file.service[0].method:
        method.input_type = method.input_type.replace(V1ALPHA, V1)
        method.output_type = method.output_type.replace(V1ALPHA, V1)
    return file
