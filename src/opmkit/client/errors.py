"""Errors of calls to a running catalog, and the conversion of gRPC errors to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from opmkit.core.escape import escape_controls
from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexOperation

if TYPE_CHECKING:
    from collections.abc import Mapping


class CallFailed(CatalogError):
    """A call that ended with an error, or without a response.

    Attributes:
        address: The address of the server.
        method: The name of the gRPC method.
        code: The name of the gRPC status code; ``UNKNOWN`` if the catalog does not contain what was requested.
        text: The error message of the server.
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


_MAX_DETAILS = 500
"""Characters of a server's error message that are reported."""
_LAST_CAUSE = "last error: "

_ERRORS: dict[grpc.StatusCode, tuple[type[CallFailed], Hint | str]] = {
    grpc.StatusCode.UNAVAILABLE: (
        ServerUnreachable,
        "check that a catalog is served at this address, and whether it requires TLS; forward the port of a catalog in"
        " a cluster with 'kubectl port-forward service/CATALOG 50051'",
    ),
    grpc.StatusCode.DEADLINE_EXCEEDED: (CallTimedOut, "increase the timeout, or check the logs of the server"),
    grpc.StatusCode.UNIMPLEMENTED: (CallFailed, "check the address: the server does not implement this call"),
    grpc.StatusCode.UNKNOWN: (
        CallFailed,
        Hint("list packages, channels and bundles with {}", IndexOperation.LIST_SERVED_CATALOG),
    ),
}


def call_error(error: grpc.RpcError, address: str, method: str) -> CallFailed:
    """Return the error of a failed call to ``address``."""
    code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
    details = (error.details() if isinstance(error, grpc.Call) else str(error)) or code.name.lower().replace("_", " ")
    error_class, hint = _ERRORS.get(code, (CallFailed, ""))
    text = _one_line(details.rpartition(_LAST_CAUSE)[2].removeprefix("UNKNOWN: "))
    return error_class(address, method, code.name, text, hint=hint)


def invalid_request(address: str, method: str, fields: Mapping[str, str]) -> CallFailed:
    """Return the error of a call with a string that is not valid Unicode."""
    texts = ", ".join(map(ascii, fields.values()))
    return CallFailed(address, method, grpc.StatusCode.INVALID_ARGUMENT.name, f"not valid UTF-8: {texts}")


def _one_line(text: str) -> str:
    """Return an error message of a server on one line of limited length."""
    return escape_controls(" ".join(text[:_MAX_DETAILS].split()))
