"""Error classes of this package, and the base class of all opmkit errors."""

from __future__ import annotations

from contextlib import contextmanager

TYPE_CHECKING = False  # importing typing takes longer than printing the version
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from opmkit.imagetools.hints import Hint


class OpmkitError(Exception):
    """Base class of the errors of opmkit, whose messages are written for users.

    A line break in a message is part of a value from outside, and is escaped when the error is printed; further lines
    of a report are ``details``.

    Attributes:
        message: ``<subject>: <what failed>: <cause>``, with the details below it; also ``str()`` of the error.
        lines: the message and each of the details.
        hint: how to solve the problem; may be empty.
    """

    def __init__(self, message: str, *, hint: Hint | str = "", details: Iterable[str] = ()) -> None:
        """Create an error."""
        from opmkit.imagetools.hints import as_hint  # slow to import: dataclasses

        self.lines = (message, *details)
        self.message = "\n".join(self.lines)
        self.hint: Hint = as_hint(hint)
        super().__init__(self.message)

    def to_dict(self) -> dict[str, Any]:
        """Return the message and the hint in JSON types."""
        return {"message": self.message, "hint": str(self.hint)}


class ImageToolsError(OpmkitError):
    """Base class of all errors about images, registries and image stores."""


class InvalidReference(ImageToolsError):
    """An invalid image reference or platform."""


class NotFound(ImageToolsError):
    """A tag, manifest, blob, repository or platform does not exist."""


class TagMoved(ImageToolsError):
    """Another writer moved the tag in the meantime."""


class AuthenticationFailed(ImageToolsError):
    """The registry requires credentials, or rejects the given ones (401, 403)."""


class RegistryUnavailable(ImageToolsError):
    """The registry cannot be reached, keeps failing, or exceeds the deadline."""


class InsecureTransport(ImageToolsError):
    """The registry uses plain HTTP instead of HTTPS, or its certificate is not trusted."""


class DigestMismatch(ImageToolsError):
    """Content does not match its digest or size."""


class LimitExceeded(ImageToolsError):
    """Content exceeds a limit on size, depth or number."""


class UnsupportedImage(ImageToolsError):
    """An image in an unsupported format, such as Docker schema 1."""


class InvalidImage(ImageToolsError):
    """A malformed manifest, configuration or layer."""


class StoreError(ImageToolsError):
    """The embedded image store or an image layout cannot be read or written."""


class EngineError(ImageToolsError):
    """A container engine failed to build, pull, push or run something."""


class EngineUnavailable(EngineError):
    """A container engine is not installed, not running or denies access."""


@contextmanager
def prefix_errors(subject: str, alias: str = "") -> Iterator[None]:
    """Prefix errors about content with ``subject``, unless the message contains ``alias`` (default: the subject)."""
    try:
        yield
    except (InvalidImage, UnsupportedImage, LimitExceeded, DigestMismatch, NotFound) as error:
        if (alias or subject) in error.message:
            raise
        raise type(error)(f"{subject}: {error.message}", hint=error.hint) from error
