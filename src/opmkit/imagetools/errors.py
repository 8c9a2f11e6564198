"""The errors of this package, and the shape that the errors of every package share."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint, as_hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class OpmkitError(Exception):
    """Base class of the errors of opmkit, whose messages are written for users.

    A line break in a message is part of a value from outside, and is escaped when the error is printed; further lines
    of a report are ``details``.

    Attributes:
        message: ``<subject>: <what failed>: <cause>``, with the details below it; also ``str()`` of the error.
        lines: the message and each of the details.
        hint: how to solve the problem; may be empty.
    """

    def __init__(
        self, message: str, *, hint: Hint | str = "", advice: Hint | str = "", details: Iterable[str] = ()
    ) -> None:
        """Create an error; ``advice`` is the former name of ``hint``."""
        self.lines = (message, *details)
        self.message = "\n".join(self.lines)
        self.hint = as_hint(hint or advice)
        super().__init__(self.message)

    @property
    def advice(self) -> str:
        """Return the text of the hint (former name)."""
        return str(self.hint)


AdvisedError = OpmkitError
"""Former name of OpmkitError."""


class ImageToolsError(OpmkitError):
    """Base of everything that goes wrong with images, registries and stores."""


class InvalidReference(ImageToolsError):
    """A text that is no image reference."""


class NotFound(ImageToolsError):
    """A tag, manifest, blob or repository that is not there."""


class TagMoved(ImageToolsError):
    """A tag that names another image than it was to be moved from."""


class AuthenticationFailed(ImageToolsError):
    """The registry wants credentials, or refuses those it was given (401, 403)."""


class RegistryUnavailable(ImageToolsError):
    """The registry can't be reached, keeps failing, or takes longer than the deadline."""


class InsecureTransport(ImageToolsError):
    """The registry speaks plain HTTP where HTTPS was asked for, or shows a certificate that is not trusted."""


class DigestMismatch(ImageToolsError):
    """Content that is not what its digest or size promised."""


class LimitExceeded(ImageToolsError):
    """Content larger, deeper or more numerous than the bound set for it."""


class UnsupportedImage(ImageToolsError):
    """An image in a format that can't be used, such as Docker schema 1."""


class InvalidImage(ImageToolsError):
    """A manifest, configuration or layer that is broken."""


class StoreError(ImageToolsError):
    """The embedded image store or an image layout on disk can't be read or written."""


class EngineError(ImageToolsError):
    """A container engine failed at what it was asked for, such as a build."""


class EngineUnavailable(EngineError):
    """A container engine that isn't installed, doesn't run, or doesn't let us in."""


@contextmanager
def prefix_errors(subject: str, known_by: str = "") -> Iterator[None]:
    """Put ``subject`` before the message of an error about content, unless that is in it, or what it is known by."""
    try:
        yield
    except (InvalidImage, UnsupportedImage, LimitExceeded, DigestMismatch, NotFound) as error:
        if (known_by or subject) in error.message:
            raise
        raise type(error)(f"{subject}: {error.message}", hint=error.hint) from error
