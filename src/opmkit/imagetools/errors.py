"""Errors of this package."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opmkit.core.errors import LimitExceeded, OpmkitError

if TYPE_CHECKING:
    from collections.abc import Iterator


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


class RegistryUnreachable(RegistryUnavailable):
    """No connection to the registry can be established."""


class DeletesUnsupported(ImageToolsError):
    """The registry does not delete images (405), usually because its operator has not enabled that."""


class InsecureTransport(ImageToolsError):
    """The registry uses plain HTTP instead of HTTPS, or its certificate is not trusted."""


class DigestMismatch(ImageToolsError):
    """Content does not match its digest or size."""


class UnsupportedImage(ImageToolsError):
    """An image in an unsupported format, such as Docker schema 1."""


class InvalidImage(ImageToolsError):
    """A malformed manifest, configuration or layer."""


class EngineError(ImageToolsError):
    """A container engine failed to build, pull, push or run something."""


class EngineUnavailable(EngineError):
    """A container engine is not installed, not running or denies access."""


@contextmanager
def prefix_errors(subject: str, alias: str = "") -> Iterator[None]:
    """Prefix errors about content with ``subject``, unless the message names ``alias`` (default: the subject)."""
    try:
        yield
    except (InvalidImage, UnsupportedImage, LimitExceeded, DigestMismatch, NotFound) as error:
        if re.search(rf"(?<!\w){re.escape(alias or subject)}(?!\w)", error.message):
            raise
        raise type(error)(f"{subject}: {error.message}", hint=error.hint) from error
