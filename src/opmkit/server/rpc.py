"""Handlers of gRPC methods, their messages and status codes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.server.backend import Reply

    Messages: TypeAlias = Iterable[bytes] | "FramedMessages"

MESSAGE_PREFIX = struct.Struct(">?I")
"""The prefix of a message: whether it is compressed, and its size in bytes."""


class StatusCode(IntEnum):
    """The status codes of gRPC that the server uses."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class RpcError(Exception):
    """An error that ends a call, with the status code and the message for the client."""

    def __init__(self, code: StatusCode, text: str) -> None:
        """Create the error."""
        super().__init__(text)
        self.code = code


class FramedMessages(bytes):
    """Messages with their prefixes, as they are sent."""


@dataclass(frozen=True, slots=True)
class MethodHandler:
    """The handler of a method.

    ``handle`` returns the response to a request message, or a function that computes it in a thread; both may raise
    RpcError. With ``client_streaming`` a call has any number of request messages, otherwise exactly one. A call of an
    ``experimental`` method has an empty response unless the client acknowledges that the method may change.
    """

    handle: Callable[[bytes], Reply[Messages]]
    client_streaming: bool = False
    experimental: bool = False


def frame_messages(messages: Iterable[bytes]) -> FramedMessages:
    """Join messages with their prefixes, to send them more than once."""
    return FramedMessages(b"".join(iter_framed(messages)))


def iter_framed(messages: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each message after its prefix."""
    for message in messages:
        yield MESSAGE_PREFIX.pack(False, len(message))
        yield message
