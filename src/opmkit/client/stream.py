"""Streams of response messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import grpc

if TYPE_CHECKING:
    from opmkit.index.errors import CatalogError

T = TypeVar("T")


class Stream(Iterator[T], Generic[T]):
    """The response of one call, received message by message as it is iterated.

    Iteration raises CallFailed. To stop early, call ``cancel()`` from any thread, or leave the ``with`` block.
    """

    def __init__(
        self, call: Any, convert: Callable[[Any], T], convert_error: Callable[[grpc.RpcError], CatalogError]
    ) -> None:
        """Convert each message of ``call``, and the error that ends it."""
        self._call = call
        self._convert = convert
        self._convert_error = convert_error
        self._cancelled = False

    def __next__(self) -> T:
        try:
            return self._convert(next(self._call))
        except grpc.RpcError as error:
            if self._cancelled:
                raise StopIteration from None
            raise self._convert_error(error) from None

    def cancel(self) -> None:
        """Stop the server from sending more messages; the stream ends."""
        self._cancelled = True
        self._call.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
