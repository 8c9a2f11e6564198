"""Answers that come one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import grpc

if TYPE_CHECKING:
    from opmkit.index.errors import CatalogError

T = TypeVar("T")


class Stream(Iterator[T], Generic[T]):
    """The answers of one call, each fetched when it is asked for.

    A reader who wants no more calls ``cancel()``, or leaves the ``with`` block; any thread may. Errors of the call are
    raised where the answers are read.
    """

    def __init__(
        self, call: Any, value_of: Callable[[Any], T], failure: Callable[[grpc.RpcError], CatalogError]
    ) -> None:
        """``value_of`` makes a value of each message of the ``call``, and ``failure`` an error of what ends it."""
        self._call = call
        self._value_of = value_of
        self._failure = failure
        self._cancelled = False

    def __next__(self) -> T:
        """The next value; raises CallFailed."""
        try:
            return self._value_of(next(self._call))
        except grpc.RpcError as error:
            if self._cancelled:
                raise StopIteration from None
            raise self._failure(error) from None

    def cancel(self) -> None:
        """Tell the server that no more is wanted; the stream is at its end."""
        self._cancelled = True
        self._call.cancel()

    def __enter__(self) -> Self:
        """The stream itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel it."""
        self.cancel()
