"""Errors of mirrors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.hints import Hint
from opmkit.imagetools.errors import ImageToolsError, NotFound
from opmkit.imagetools.hint_terms import ImageSetting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.core.errors import OpmkitError
    from opmkit.supply.mirror.model import MirrorFailure

_MAX_USERS = 5
"""What needs an image, in messages."""


class MirrorFailed(ImageToolsError):
    """Images that cannot be mirrored.

    Attributes:
        failures: The images with their causes.
    """

    def __init__(self, failures: Sequence[MirrorFailure], total: int = 0) -> None:
        """Create the error for one image, or for several of ``total`` images that are to be mirrored."""
        first, *others = failure_lines(failures)
        if total:
            count = f"{len(failures)} of {total} images cannot be mirrored; nothing was copied"
            first, others = count, [first, *others]
        hints = [failure.error.hint for failure in failures[:1]]
        if not any(failure.is_target_error for failure in failures):
            hints.append(Hint("mirror the others with {}", ImageSetting.CONTINUE))
        super().__init__(first, details=others, hint=Hint.all_of(*hints))
        self.failures = tuple(failures)


class TargetFailed(ImageToolsError):
    """A target that keeps failing, so that no further images are copied."""

    def __init__(self, failure: MirrorFailure) -> None:
        """Create the error for the last failure."""
        super().__init__(f"the target keeps failing: {failure.error.message}", hint=failure.error.hint)


def partial_copy_error(error: OpmkitError) -> OpmkitError:
    """Return the error for an index that was put without some of its images."""
    if type(error) is not ImageToolsError and not isinstance(error, NotFound):  # other errors have their own causes
        return error
    hint = Hint("omit {}: many registries require all images of an index", ImageSetting.PLATFORM)
    return type(error)(error.message, hint=hint)


def failure_lines(failures: Sequence[MirrorFailure]) -> Iterator[str]:
    """Yield the cause of each failure, and below it what needs the image."""
    for failure in failures:
        named = failure.image in failure.error.message
        yield failure.error.message if named else f"{failure.image}: {failure.error.message}"
        for user in failure.needed_by[:_MAX_USERS]:
            yield f"  needed by {user}"
        if len(failure.needed_by) > _MAX_USERS:
            yield f"  needed by {len(failure.needed_by) - _MAX_USERS} others"
