"""The service ``api.Registry`` and health checking as gRPC handlers: requests are read, answers are bytes already."""

from __future__ import annotations

import asyncio
import logging
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError

from opmkit.index.api import METHODS
from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from opmkit.index.api import Method
    from opmkit.index.server.answers import Answer, Answers

    Call = Callable[[Answers, Any], Answer[Any]]

_log = logging.getLogger(__name__)

HEALTH = "grpc.health.v1.Health"
_SERVING = b"\x08\x01"
"""The message HealthCheckResponse with the status SERVING."""

_CALLS: Mapping[str, Call] = MappingProxyType(
    {
        "ListPackages": lambda answers, asked: answers.list_packages(),
        "GetPackage": lambda answers, asked: answers.get_package(asked.name),
        "GetBundle": lambda answers, asked: answers.get_bundle(asked.pkgName, asked.channelName, asked.csvName),
        "GetBundleForChannel": lambda answers, asked: answers.get_bundle_for_channel(asked.pkgName, asked.channelName),
        "GetChannelEntriesThatReplace": lambda answers, asked: answers.get_channel_entries_that_replace(asked.csvName),
        "GetBundleThatReplaces": lambda answers, asked: answers.get_bundle_that_replaces(
            asked.csvName, asked.pkgName, asked.channelName
        ),
        "GetChannelEntriesThatProvide": lambda answers, asked: answers.get_channel_entries_that_provide(
            asked.group, asked.version, asked.kind
        ),
        "GetLatestChannelEntriesThatProvide": lambda answers, asked: answers.get_latest_channel_entries_that_provide(
            asked.group, asked.version, asked.kind
        ),
        "GetDefaultBundleThatProvides": lambda answers, asked: answers.get_default_bundle_that_provides(
            asked.group, asked.version, asked.kind
        ),
        "ListBundles": lambda answers, asked: answers.list_bundles(),
    }
)
"""How each method's request asks for its answer."""


def handlers(answers: Answers) -> dict[str, grpc.RpcMethodHandler[bytes, bytes]]:
    """The handler of every method that is served, by its path."""
    found = {method.path: _handler(method, answers) for method in METHODS.values()}
    found[f"/{HEALTH}/Check"] = grpc.unary_unary_rpc_method_handler(_check)
    return found


def _handler(method: Method, answers: Answers) -> grpc.RpcMethodHandler[bytes, bytes]:
    ask = _CALLS[method.name]

    async def answer(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> Any:
        """The answer, made in a thread where that takes long; the call ends here where there is none."""
        try:
            found = ask(answers, method.request.FromString(request))
            return await asyncio.to_thread(found) if callable(found) else found
        except CatalogError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, error.message)
        except DecodeError:
            await context.abort(grpc.StatusCode.INTERNAL, "grpc: error unmarshalling request")
        except OSError as error:
            _log.exception("an answer can't be given", extra={"fields": {"method": method.name}})
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))

    async def stream(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> AsyncIterator[bytes]:
        for message in await answer(request, context):
            yield message

    if method.streams:
        return grpc.unary_stream_rpc_method_handler(stream)
    return grpc.unary_unary_rpc_method_handler(answer)


async def _check(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
    """Health of any service, known or not: a server that listens can answer."""
    return _SERVING


class Service(grpc.GenericRpcHandler):
    """All handlers, and a refusal of every other call in the words of Go's servers."""

    def __init__(self, found: Mapping[str, grpc.RpcMethodHandler[bytes, bytes]]) -> None:
        """Serve these handlers, by their paths."""
        self._handlers = found
        self._services = {path.split("/")[1] for path in found}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        """The handler of one call."""
        path: str = handler_call_details.method
        return self._handlers.get(path) or self._unknown(path)

    def _unknown(self, path: str) -> grpc.RpcMethodHandler[bytes, bytes]:
        service, _, method = path.removeprefix("/").rpartition("/")
        known = service in self._services
        text = f"unknown method {method} for service {service}" if known else f"unknown service {service}"

        async def refuse(requests: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, text)

        return grpc.stream_unary_rpc_method_handler(refuse)
