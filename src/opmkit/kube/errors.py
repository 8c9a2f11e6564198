"""Errors about clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.errors import OpmkitError

if TYPE_CHECKING:
    from opmkit.core.hints import Hint

UNKNOWN_RESOURCE = "UnknownResource"
"""Reason of an error about a resource that the cluster does not have, such as one without its CRD."""


class ClusterError(OpmkitError):
    """The cluster cannot be reached, or rejects a request.

    Attributes:
        status: HTTP status code, 0 without a response.
        reason: Reason in the ``Status`` object of the response, such as ``AlreadyExists``, or `UNKNOWN_RESOURCE`.
    """

    def __init__(self, message: str, *, hint: Hint | str = "", status: int = 0, reason: str = "") -> None:
        """Create an error."""
        super().__init__(message, hint=hint)
        self.status = status
        self.reason = reason
