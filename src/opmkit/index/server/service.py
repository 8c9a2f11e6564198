"""The service ``api.Registry`` and health checking as gRPC handlers: requests are read, answers are bytes already.

A server listens before it has loaded what it answers with, and also before the library that reads requests: it shall be
healthy early.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import grpc

from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from opmkit.index.server.answers import Answer, Answers

    Context = grpc.aio.ServicerContext[bytes, bytes]
    Handler = grpc.RpcMethodHandler[bytes, bytes]
    Call = Callable[[Answers, Any], Answer[Any]]

_log = logging.getLogger(__name__)

REGISTRY = "api.Registry"
HEALTH = "grpc.health.v1.Health"
_SERVING = b"\x08\x01"
"""The message HealthCheckResponse with the status SERVING."""

_SINGLE: Mapping[str, Call] = MappingProxyType(
    {
        "GetPackage": lambda answers, asked: answers.get_package(asked.name),
        "GetBundle": lambda answers, asked: answers.get_bundle(asked.pkgName, asked.channelName, asked.csvName),
        "GetBundleForChannel": lambda answers, asked: answers.get_bundle_for_channel(asked.pkgName, asked.channelName),
        "GetBundleThatReplaces": lambda answers, asked: answers.get_bundle_that_replaces(
            asked.csvName, asked.pkgName, asked.channelName
        ),
        "GetDefaultBundleThatProvides": lambda answers, asked: answers.get_default_bundle_that_provides(
            asked.group, asked.version, asked.kind
        ),
    }
)
_STREAMS: Mapping[str, Call] = MappingProxyType(
    {
        "ListPackages": lambda answers, asked: answers.list_packages(),
        "ListBundles": lambda answers, asked: answers.list_bundles(),
        "GetChannelEntriesThatReplace": lambda answers, asked: answers.get_channel_entries_that_replace(asked.csvName),
        "GetChannelEntriesThatProvide": lambda answers, asked: answers.get_channel_entries_that_provide(
            asked.group, asked.version, asked.kind
        ),
        "GetLatestChannelEntriesThatProvide": lambda answers, asked: answers.get_latest_channel_entries_that_provide(
            asked.group, asked.version, asked.kind
        ),
    }
)
"""How a request asks for its answer, by the methods that give one message and those that give a stream of them."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What calls are answered with: the answers, and what reads the request to a method, or raises ValueError."""

    answers: Answers
    read: Callable[[str, bytes], Any]


def handlers(loading: asyncio.Future[Loaded]) -> dict[str, Handler]:
    """The handler of every method, by its path. Calls wait for what is ``loading``; health does not."""
    single = {f"/{REGISTRY}/{name}": _single(name, call, loading) for name, call in _SINGLE.items()}
    streams = {f"/{REGISTRY}/{name}": _stream(name, call, loading) for name, call in _STREAMS.items()}
    return single | streams | {f"/{HEALTH}/Check": grpc.unary_unary_rpc_method_handler(_check)}


def _single(name: str, call: Call, loading: asyncio.Future[Loaded]) -> Handler:
    async def answer(request: bytes, context: Context) -> Any:
        return await _answer(name, call, loading, request, context)

    return grpc.unary_unary_rpc_method_handler(answer)


def _stream(name: str, call: Call, loading: asyncio.Future[Loaded]) -> Handler:
    async def answer(request: bytes, context: Context) -> AsyncIterator[bytes]:
        for message in await _answer(name, call, loading, request, context):
            yield message

    return grpc.unary_stream_rpc_method_handler(answer)


async def _answer(name: str, call: Call, loading: asyncio.Future[Loaded], request: bytes, context: Context) -> Any:
    """The answer, made in a thread where that takes long; the call ends here where there is none."""
    loaded = loading.result() if loading.done() else await asyncio.shield(loading)
    try:
        asked = loaded.read(name, request)
    except ValueError:
        await context.abort(grpc.StatusCode.INTERNAL, "grpc: error unmarshalling request")
    try:
        found = call(loaded.answers, asked)
        return await asyncio.to_thread(found) if callable(found) else found
    except CatalogError as error:
        await context.abort(grpc.StatusCode.UNKNOWN, error.message)
    except OSError as error:
        _log.exception("an answer can't be given", extra={"fields": {"method": name}})
        await context.abort(grpc.StatusCode.UNKNOWN, str(error))


async def _check(request: bytes, context: Context) -> bytes:
    """Health of any service, known or not: a server that listens can answer."""
    return _SERVING


class Service(grpc.GenericRpcHandler):
    """All handlers, and a refusal of every other call in the words of Go's servers."""

    def __init__(self, found: Mapping[str, Handler]) -> None:
        """Serve these handlers, by their paths."""
        self._handlers = found
        self._services = {path.split("/")[1] for path in found}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler:
        """The handler of one call."""
        path: str = handler_call_details.method
        return self._handlers.get(path) or self._unknown(path)

    def _unknown(self, path: str) -> Handler:
        service, _, method = path.removeprefix("/").rpartition("/")
        known = service in self._services
        text = f"unknown method {method} for service {service}" if known else f"unknown service {service}"

        async def refuse(requests: object, context: Context) -> None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, text)

        return grpc.stream_unary_rpc_method_handler(refuse)
