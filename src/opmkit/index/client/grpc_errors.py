"""gRPC's errors in words: what failed at which address, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from opmkit.imagetools.escape import escape_controls
from opmkit.imagetools.hints import Hint, Operation
from opmkit.index.client.errors import CallFailed, CallTimedOut, ServerUnreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

_LENGTH = 500
_LAST_CAUSE = "last error: "

_FAILURES: dict[grpc.StatusCode, tuple[type[CallFailed], Hint | str]] = {
    grpc.StatusCode.UNAVAILABLE: (
        ServerUnreachable,
        "see that a catalog is served at this address, and whether it speaks TLS; to one in a cluster leads"
        " 'kubectl port-forward service/CATALOG 50051'",
    ),
    grpc.StatusCode.DEADLINE_EXCEEDED: (CallTimedOut, "give it more time, or see whether the server is well"),
    grpc.StatusCode.UNIMPLEMENTED: (CallFailed, "this server is no catalog's: it doesn't know the call"),
    grpc.StatusCode.UNKNOWN: (
        CallFailed,
        Hint("list packages, channels and bundles with {}", Operation.LIST_SERVED_CATALOG),
    ),
}


def failure(error: grpc.RpcError, address: str, method: str) -> CallFailed:
    """The error of a call to ``address`` that did not succeed."""
    code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
    details = (error.details() if isinstance(error, grpc.Call) else str(error)) or code.name.lower().replace("_", " ")
    kind, hint = _FAILURES.get(code, (CallFailed, ""))
    return kind(
        address,
        method,
        code.name,
        _one_line(details.rpartition(_LAST_CAUSE)[2].removeprefix("UNKNOWN: ")),
        hint=hint,
    )


def unsendable(address: str, method: str, fields: Mapping[str, str]) -> CallFailed:
    """The error of a call with a text that is no Unicode, so that no message can hold it."""
    texts = ", ".join(map(ascii, fields.values()))
    return CallFailed(address, method, grpc.StatusCode.INVALID_ARGUMENT.name, f"not valid UTF-8: {texts}")


def _one_line(text: str) -> str:
    """Return the details from a server on one line of bounded length."""
    return escape_controls(" ".join(text[:_LENGTH].split()))
