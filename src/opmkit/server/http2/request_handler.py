"""Interface between a connection and its requests."""

from __future__ import annotations

from typing import Protocol

MAX_BUFFERED = 1_048_576
"""Bytes of incomplete requests on one connection."""


class RequestHandler(Protocol):
    """The handler of a request, which sends its response over the connection."""

    def begin(self) -> None:
        """Send a response that does not depend on the content of the request, such as an error."""

    def receive(self, data: bytes, *, ended: bool) -> None:
        """Process a part of the content; ``ended`` marks the last part."""

    def finished(self) -> None:
        """Finish the request after its response has been sent."""

    def cancelled(self) -> None:
        """Stop the request, since the client no longer waits for the response."""
