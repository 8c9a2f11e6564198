"""Errors of calls to a running catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from opmkit.core.hints import Hint


class CallFailed(CatalogError):
    """A call that ended with an error, or without a response.

    Attributes:
        address: the address of the server.
        method: the name of the gRPC method.
        code: the name of the gRPC status code; ``UNKNOWN`` if the catalog does not contain what was requested.
        text: the error message of the server.
    """

    def __init__(self, address: str, method: str, code: str, text: str, *, hint: Hint | str = "") -> None:
        """Create the error."""
        super().__init__(f"{address}: {method}: {text}", hint=hint)
        self.address = address
        self.method = method
        self.code = code
        self.text = text


class ServerUnreachable(CallFailed):
    """A server that does not respond, or a broken connection."""


class CallTimedOut(CallFailed):
    """A call whose response was not complete in time."""
