"""The methods of the service ``api.Registry`` and of health checking: requests are read, answers are bytes already.

A server listens before it has loaded what it answers with, and also before the library that reads requests: it shall be
healthy early.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from opmkit.index.errors import CatalogError
from opmkit.index.server.grpc_calls import CallFailed, FramedMessages, Method, Status, framed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from opmkit.index.server.backend import QueryBackend, Reply

    Messages = Iterable[bytes] | FramedMessages
    Call = Callable[[QueryBackend, Any], Reply[Any]]
    Shape = Callable[[Any], Messages]

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

    answers: QueryBackend
    read: Callable[[str, bytes], Any]


def methods(loading: Future[Loaded]) -> dict[str, Method]:
    """Every method by its path. GrpcDispatcher wait for what is ``loading``; but a server that listens is healthy."""
    single = {name: Method(partial(_answer, name, call, _alone, loading)) for name, call in _SINGLE.items()}
    shapes: dict[str, Shape] = {"ListPackages": _again}
    streams = {
        name: Method(partial(_answer, name, call, shapes.get(name, _all), loading)) for name, call in _STREAMS.items()
    }
    found = {f"/{REGISTRY}/{name}": method for name, method in (single | streams).items()}
    found[f"/{HEALTH}/Check"] = Method(lambda request: (_SERVING,))
    return found


def _answer(name: str, call: Call, shape: Shape, loading: Future[Loaded], request: bytes) -> Reply[Messages]:
    if not loading.done():
        return lambda: _now(_answer_by(loading.result(), name, call, shape, request))
    return _answer_by(loading.result(), name, call, shape, request)


def _answer_by(loaded: Loaded, name: str, call: Call, shape: Shape, request: bytes) -> Reply[Messages]:
    with _explained(name):
        try:
            asked = loaded.read(name, request)
        except ValueError as error:
            raise CallFailed(Status.INTERNAL, "grpc: error unmarshalling request") from error
        found = call(loaded.answers, asked)
        if not callable(found):
            return shape(found)

    def made() -> Messages:
        with _explained(name):
            return shape(found())

    return made


def _now(answer: Reply[Messages]) -> Messages:
    return answer() if callable(answer) else answer


def _alone(message: bytes) -> Messages:
    return (message,)


def _all(messages: Messages) -> Messages:
    return messages


@lru_cache(maxsize=1)
def _again(messages: tuple[bytes, ...]) -> Messages:
    """Messages of which each call has the same: many small ones take their time."""
    return framed(messages)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Let a caller know of whatever goes wrong."""
    try:
        yield
    except CallFailed:
        raise
    except CatalogError as error:
        raise CallFailed(Status.UNKNOWN, error.message) from error
    except Exception as error:
        _log.exception("a call can't be answered", extra={"fields": {"method": name}})
        raise CallFailed(Status.UNKNOWN, str(error)) from error
