"""The errors of this package, and the shape that the errors of every package share."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class AdvisedError(Exception):
    """An error meant for a person: what failed, on what, and what to do about it.

    ``message`` names the subject (reference, file and line, layer); ``advice`` is a sentence, or empty where there is
    nothing useful to say. A line break in ``message`` is part of a value from outside, and is escaped where the error
    is printed: further lines of a report go in ``details``.
    """

    def __init__(self, message: str, *, advice: str = "", details: Iterable[str] = ()) -> None:
        """Store the texts; ``message`` and ``str()`` of the error are the message with the details below it."""
        self.lines = (message, *details)
        self.message = "\n".join(self.lines)
        self.advice = advice
        super().__init__(self.message)


class ImageToolsError(AdvisedError):
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
        raise type(error)(f"{subject}: {error.message}", advice=error.advice) from error
