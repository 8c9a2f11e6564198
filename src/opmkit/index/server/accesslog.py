"""A log record for every call."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    Handler = grpc.RpcMethodHandler[bytes, bytes]
    Context = grpc.aio.ServicerContext[bytes, bytes]

_log = logging.getLogger(__name__)


def logged(path: str, handler: Handler) -> Handler:
    """A handler that does as ``handler``, and logs the method, the caller, the status and the milliseconds it took.

    Those that answer with a stream also log how many messages were sent.
    """

    async def answer(request: Any, context: Context) -> bytes:
        async with _record(path, context):
            behaviour: Any = handler.stream_unary if handler.request_streaming else handler.unary_unary
            found: bytes = await behaviour(request, context)
            return found

    async def stream(request: Any, context: Context) -> AsyncIterator[bytes]:
        async with _record(path, context) as fields:
            behaviour: Any = handler.stream_stream if handler.request_streaming else handler.unary_stream
            fields["messages"] = 0
            async for message in behaviour(request, context):
                yield message
                fields["messages"] += 1

    if handler.response_streaming:
        make = grpc.stream_stream_rpc_method_handler if handler.request_streaming else _UNARY_STREAM
        return make(stream)
    make_one = grpc.stream_unary_rpc_method_handler if handler.request_streaming else _UNARY_UNARY
    return make_one(answer)


_UNARY_STREAM, _UNARY_UNARY = grpc.unary_stream_rpc_method_handler, grpc.unary_unary_rpc_method_handler


@asynccontextmanager
async def _record(path: str, context: Context) -> AsyncIterator[dict[str, Any]]:
    """Log a call when it has ended, however it does; the body may add fields."""
    fields: dict[str, Any] = {"method": path, "peer": context.peer()}
    start = time.perf_counter()
    status = grpc.StatusCode.OK
    try:
        yield fields
    except (asyncio.CancelledError, GeneratorExit):
        status = grpc.StatusCode.CANCELLED
        raise
    except BaseException:
        status = grpc.StatusCode.UNKNOWN
        raise
    finally:
        code = context.code() or status
        fields |= {"code": getattr(code, "name", code), "ms": round((time.perf_counter() - start) * 1000, 2)}
        _log.info("call", extra={"fields": fields})
