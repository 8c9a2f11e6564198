"""Handlers of the services ``api.Registry``, ``api.ExperimentalRegistry`` and ``grpc.health.v1.Health``.

The server listens before the index and the library that parses requests are loaded, so that it soon reports to be
healthy.
"""

from __future__ import annotations

import logging
from functools import lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.index.errors import CatalogError
from opmkit.server.grpc_calls import MethodHandler, RpcError, StatusCode, frame_messages
from opmkit.server.settings import InvalidQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from opmkit.index.grpc_api import Method
    from opmkit.server.backend import QueryBackend, Reply
    from opmkit.server.grpc_calls import Messages

    Query = Callable[[QueryBackend, Any], Reply[Any]]
    ToMessages = Callable[[Any], Messages]

_log = logging.getLogger(__name__)

HEALTH_SERVICE = "grpc.health.v1.Health"
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"
"""The messages HealthCheckResponse with these statuses."""


class LoadedBackend(Struct, frozen=True):
    """A backend with the parser of requests: a function of the method's name and the message that raises ValueError."""

    backend: QueryBackend
    parse_request: Callable[[str, bytes], Any]


def method_handlers(loading: Future[LoadedBackend], methods: Iterable[Method]) -> dict[str, MethodHandler]:
    """Return the handlers of methods, and of health checks, by path.

    Calls wait until the backend is loaded, and fail if it cannot be; health checks succeed at once.
    """
    handlers = {
        method.path: MethodHandler(
            partial(_handle, method.name, _query(method), _converter(method), loading),
            experimental=method.is_experimental,
        )
        for method in methods
    }
    handlers[f"/{HEALTH_SERVICE}/Check"] = MethodHandler(lambda request: (_health(loading),))
    return handlers


def _health(loading: Future[LoadedBackend]) -> bytes:
    return _NOT_SERVING if loading.done() and loading.exception() is not None else _SERVING


def _query(method: Method) -> Query:
    """Return a function that calls the backend's method with the arguments in a request."""
    name, arguments = method.python_name, method.arguments
    if not arguments:
        return lambda backend, request: getattr(backend, name)()
    get = attrgetter(*arguments)
    if len(arguments) == 1:
        return lambda backend, request: getattr(backend, name)(get(request))
    return lambda backend, request: getattr(backend, name)(*get(request))


def _converter(method: Method) -> ToMessages:
    """Return a function that converts a reply of the backend to the messages of the response."""
    if not method.streams:
        return _single
    return _frame_once if method.name == "ListPackages" else _stream


def _handle(
    name: str, query: Query, convert: ToMessages, loading: Future[LoadedBackend], request: bytes
) -> Reply[Messages]:
    if not loading.done():
        return lambda: _compute(_respond(_wait(loading), name, query, convert, request))
    return _respond(_wait(loading), name, query, convert, request)


def _wait(loading: Future[LoadedBackend]) -> LoadedBackend:
    """Return the backend when it is loaded; raise RpcError if it cannot be."""
    try:
        return loading.result()
    except Exception as error:
        raise RpcError(StatusCode.UNAVAILABLE, f"the index cannot be opened: {error}") from error


def _respond(loaded: LoadedBackend, name: str, query: Query, convert: ToMessages, request: bytes) -> Reply[Messages]:
    try:
        parsed = loaded.parse_request(name, request)
    except ValueError as error:
        raise RpcError(StatusCode.INTERNAL, "grpc: error unmarshalling request") from error
    try:
        reply = query(loaded.backend, parsed)
        if not callable(reply):
            return convert(reply)
    except Exception as error:
        raise _rpc_error(error, name) from error

    def compute() -> Messages:
        try:
            return convert(reply())
        except Exception as error:
            raise _rpc_error(error, name) from error

    return compute


def _compute(reply: Reply[Messages]) -> Messages:
    return reply() if callable(reply) else reply


def _single(message: bytes) -> Messages:
    return (message,)


def _stream(messages: Iterable[bytes]) -> Messages:
    return messages


@lru_cache(maxsize=1)
def _frame_once(messages: tuple[bytes, ...]) -> Messages:
    """Frame messages that are the same for each call, since framing many small ones takes long."""
    return frame_messages(messages)


def _rpc_error(error: Exception, method: str) -> RpcError:
    """Return the error for the client; unexpected ones are logged."""
    if isinstance(error, InvalidQuery):
        return RpcError(StatusCode.INVALID_ARGUMENT, error.message)
    if isinstance(error, CatalogError):
        return RpcError(StatusCode.UNKNOWN, error.message)
    _log.error("call failed", exc_info=error, extra={"fields": {"method": method}})
    return RpcError(StatusCode.UNKNOWN, str(error))
