"""Base classes of all errors."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes longer than printing the version


if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from opmkit.core.hints import Hint


class OpmkitError(Exception):
    """Base class of the errors of opmkit, whose messages are written for users.

    A line break in a message is part of a value from outside, and is escaped when the error is printed; further lines
    of a report are ``details``. URLs lose their user names and passwords.

    Attributes:
        message: ``<subject>: <what failed>: <cause>``, with the details below it; also ``str()`` of the error.
        lines: The message and each of the details.
        hint: How to solve the problem; may be empty.
    """

    def __init__(self, message: str, *, hint: Hint | str = "", details: Iterable[str] = ()) -> None:
        """Create an error."""
        from opmkit.core.escape import without_logins  # imported with the first error
        from opmkit.core.hints import as_hint  # slow to import: dataclasses

        self.lines = tuple(map(without_logins, (message, *details)))
        self.message = "\n".join(self.lines)
        self.hint: Hint = as_hint(hint)
        super().__init__(self.message)

    def to_dict(self) -> dict[str, Any]:
        """Return the message and the hint in JSON types."""
        return {"message": self.message, "hint": str(self.hint)}


class LimitExceeded(OpmkitError):
    """Content exceeds a limit on size, depth or number."""


class DiskError(OpmkitError):
    """A file or directory cannot be read or written, or is not what was expected."""
