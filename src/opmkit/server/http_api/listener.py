"""Listener for the web API in a worker process: connections, their limits, and a graceful end."""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opmkit.server.acceptor import NEW_SECONDS, Acceptor, Use
from opmkit.server.http2.connection import format_address
from opmkit.server.http_api.api import HEAD_END, RANGES, RequestError, accepts_gzip, error_response, parse_request

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Awaitable, Callable

    from opmkit.server.http_api.api import CatalogApi, HttpRequest, HttpResponse
    from opmkit.server.settings import ServerSettings

    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_log = logging.getLogger(__name__)

MAX_HEAD = 16 << 10
"""Bytes of a request, as for headers of gRPC."""
MAX_CONNECTIONS = 250
_GZIP = 16 + zlib.MAX_WBITS
_LEVEL, _MEMORY_LEVEL = 1, 6
"""Level of compression: readers are near, so that higher levels cost more time than they save."""
_BUFFER_SIZE = 1 << 14
"""Bytes for a client that does not read, above which nothing is added."""
_DRAIN_INTERVAL = 0.02
_TLS_GOODBYE = 1.0
"""Seconds for an idle client to acknowledge the end of a connection with TLS; many clients never do."""


class HttpListener:
    """Listener on a socket for requests of the web API."""

    def __init__(
        self, listening: socket.socket, api: CatalogApi, settings: ServerSettings, tls: ssl.SSLContext | None
    ) -> None:
        """Prepare to answer requests by ``api``."""
        self._api = api
        self._settings = settings
        self._connections: set[_Protocol] = set()
        self._idle: set[asyncio.Timeout] = set()
        self._stopping = False
        limits = settings.limits
        limits = replace(limits, connections=min(limits.connections, MAX_CONNECTIONS))
        connect = partial(_Protocol, self._serve, self._connections)
        self._acceptor = Acceptor(listening, connect, self._connections, limits, tls, close_idle=self._close_idle)

    def start(self) -> None:
        """Listen and answer requests."""
        self._acceptor.start()

    async def stop(self) -> None:
        """Stop listening, close idle connections, and finish the responses in progress within the grace period."""
        self._stopping = True
        self._acceptor.close()
        for timeout in self._idle:
            timeout.reschedule(0)
        end = asyncio.get_running_loop().time() + self._settings.grace
        while self._connections and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(_DRAIN_INTERVAL)

    def _close_idle(self) -> bool:
        """Close the connection that waits for a request for the longest time, first one without any request."""
        idle = [connection for connection in self._connections if connection.idle_since is not None]
        if not idle:
            return False
        now = time.monotonic()
        connection = min(idle, key=lambda each: each.use(now))
        self._connections.discard(connection)
        connection.transport.close()
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection, and close it."""
        try:
            limit = self._settings.limits.greeting
            idle = await self._answer_requests(reader, writer)
            if idle and writer.get_extra_info("ssl_object") is not None:
                limit = _TLS_GOODBYE
            writer.close()
            async with asyncio.timeout(limit):
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass
        except Exception:  # noqa: BLE001 - the other connections continue
            _log.exception("request failed")
        finally:
            if self._is_open(writer):  # asyncio fails to abort a closed connection
                writer.transport.abort()

    async def _answer_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer the requests of a connection, and return whether it ended while it was idle."""
        timeout = self._settings.limits.greeting
        while not self._stopping:
            try:
                head = await self._wait_for_head(reader, writer, timeout)
            except TimeoutError:
                return True
            if not await self._respond(head, writer):
                break
            timeout = self._settings.limits.crowded_idle
        return False

    async def _wait_for_head(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float
    ) -> bytes | None:
        """Read a request, see `_read_head`; meanwhile the connection is idle."""
        protocol = writer.transport.get_protocol()
        if not isinstance(protocol, _Protocol):
            return await self._read_head(reader, seconds)
        protocol.idle_since = time.monotonic()
        try:
            head = await self._read_head(reader, seconds)
            protocol.used = True
        finally:
            protocol.idle_since = None
        return head

    def _is_open(self, writer: asyncio.StreamWriter) -> bool:
        return writer.transport.get_protocol() in self._connections

    async def _read_head(self, reader: asyncio.StreamReader, seconds: float) -> bytes | None:
        """Return the request before its content, or None if it is too large; raises TimeoutError."""
        async with asyncio.timeout(seconds) as timeout:
            self._idle.add(timeout)
            try:
                return await reader.readuntil(HEAD_END)
            except asyncio.LimitOverrunError:
                return None
            finally:
                self._idle.discard(timeout)

    async def _respond(self, head: bytes | None, writer: asyncio.StreamWriter) -> bool:
        """Answer a request, and return whether the connection can be used for another."""
        start = time.perf_counter()
        request = None
        try:
            if head is None:
                raise RequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            request = parse_request(head)
            response = self._api.answer(request)
        except RequestError as error:
            response = error_response(error.status)
        keep_alive = request is not None and request.keep_alive and not self._stopping
        sent = _SentBytes()
        try:
            await self._send(request, response, writer, sent, keep_alive=keep_alive)
        finally:
            if self._settings.access_log:
                self._log_request(request, response, writer, start, sent)
        return keep_alive

    async def _send(
        self,
        request: HttpRequest | None,
        response: HttpResponse,
        writer: asyncio.StreamWriter,
        sent: _SentBytes,
        *,
        keep_alive: bool,
    ) -> None:
        has_content = request is None or request.method != "HEAD"
        compressed = (
            request is not None
            and has_content
            and request.chunked
            and accepts_gzip(request)
            and response.is_compressible
        )
        headers = [("Date", formatdate(usegmt=True)), *response.headers]
        if compressed:
            headers = [header for header in headers if header != RANGES]
            headers += [("Content-Encoding", "gzip"), ("Transfer-Encoding", "chunked")]
        elif response.status is not HTTPStatus.NOT_MODIFIED:
            headers.append(("Content-Length", str(response.size)))
        headers.append(("Connection", "keep-alive" if keep_alive else "close"))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        writer.write(f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n{lines}\r\n".encode())
        if has_content:
            writer.write(response.text)
            sent.count += len(response.text)
            if compressed:
                await self._send_compressed(response, writer, sent)
            else:
                for piece in self._api.content.read(response.sections):
                    await self._write(writer, piece)
                    sent.count += len(piece)
        await self._write(writer, b"")

    async def _send_compressed(self, response: HttpResponse, writer: asyncio.StreamWriter, sent: _SentBytes) -> None:
        """Send the sections of a response in chunks; they are compressed in a thread, since that takes long."""
        compressor = zlib.compressobj(_LEVEL, wbits=_GZIP, memLevel=_MEMORY_LEVEL)
        for piece in self._api.content.read(response.sections):
            compressed = await asyncio.to_thread(compressor.compress, piece)
            await self._write(writer, _chunk(compressed))
            sent.count += len(compressed)
        rest = compressor.flush()
        await self._write(writer, _chunk(rest) + b"0\r\n\r\n")
        sent.count += len(rest)

    async def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Write data, and wait until the client has received most of it; raises TimeoutError."""
        writer.write(data)
        async with asyncio.timeout(self._settings.limits.crowded_idle):
            await writer.drain()

    def _log_request(
        self,
        request: HttpRequest | None,
        response: HttpResponse,
        writer: asyncio.StreamWriter,
        start: float,
        sent: _SentBytes,
    ) -> None:
        """Write a request to the access log with the fields of a gRPC call, and its path."""
        fields = {
            "method": request.method if request else "",
            "path": request.path if request else "",
            "peer": format_address(writer.get_extra_info("peername")),
            "code": response.status.value,
            "ms": round((time.perf_counter() - start) * 1000, 2),
            "bytes": sent.count,
        }
        _log.info("call", extra={"fields": fields})


class _SentBytes(Struct):
    """The number of bytes of a response that have been sent, without headers."""

    count: int = 0


class _Protocol(asyncio.StreamReaderProtocol):
    """A connection with streams, which is one of ``connections`` while it is open."""

    def __init__(self, serve: Serve, connections: set[_Protocol]) -> None:
        super().__init__(asyncio.StreamReader(limit=MAX_HEAD), serve)
        self._open_connections = connections
        self.transport: asyncio.BaseTransport
        self.idle_since: float | None = None
        """The time since which the connection waits for a request."""
        self.used = False

    def use(self, now: float) -> tuple[Use, float]:
        """Return how much the idle connection is in use, and since when."""
        since = self.idle_since or now
        if self.used:
            return Use.USED, since
        return Use.NEW if now - since < NEW_SECONDS else Use.SILENT, since

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        if isinstance(transport, asyncio.WriteTransport):
            transport.set_write_buffer_limits(_BUFFER_SIZE)
        self._open_connections.add(self)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_connections.discard(self)
        super().connection_lost(exc)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
