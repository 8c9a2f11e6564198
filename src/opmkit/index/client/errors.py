"""What can go wrong with a call to a catalog's server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from opmkit.imagetools.hints import Hint


class InvalidAddress(CatalogError):
    """A text that is no ``HOST:PORT``."""


class CallFailed(CatalogError):
    """A call that the server answered by an error, or not at all.

    ``address`` is that of the server, ``method`` the name of the call, ``code`` that of gRPC's status, and ``text``
    what the server said. A catalog that does not have what it is asked for says so with the code ``UNKNOWN``.
    """

    def __init__(self, address: str, method: str, code: str, text: str, *, hint: Hint | str = "") -> None:
        """Name all of them."""
        super().__init__(f"{address}: {method}: {text}", hint=hint)
        self.address = address
        self.method = method
        self.code = code
        self.text = text


class ServerUnreachable(CallFailed):
    """Nobody answers at the address, or the connection broke."""


class CallTimedOut(CallFailed):
    """The answer was not complete when the time for it was over."""
