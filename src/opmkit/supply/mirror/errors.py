"""Errors of mirrors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.hints import Hint
from opmkit.imagetools.errors import ImageToolsError, NotFound
from opmkit.imagetools.hint_terms import ImageSetting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.core.errors import OpmkitError
    from opmkit.supply.mirror.model import MirrorFailure


class MirrorFailed(ImageToolsError):
    """Images that cannot be mirrored.

    Attributes:
        failures: The images with their causes.
    """

    def __init__(self, failures: Sequence[MirrorFailure], total: int = 0) -> None:
        """Create the error for one image, or for several of ``total`` images that are to be mirrored."""
        first, *others = [line for failure in failures for line in failure.lines()]
        if total:
            count = f"{len(failures)} of {total} images cannot be mirrored; nothing was copied"
            first, others = count, [first, *others]
        hints = [failure.error.hint for failure in failures[:1]]
        if not any(failure.is_target_error for failure in failures):
            hints.append(Hint("mirror the others with {}", ImageSetting.CONTINUE))
        super().__init__(first, details=others, hint=Hint.all_of(*hints))
        self.failures = tuple(failures)


class TagConflict(ImageToolsError):
    """A tag in the target names another image, and no record shows that a mirror of the same image has set it."""

    def __init__(self, name: str, digest: str) -> None:
        """Create the error for a tag and the digest that it names."""
        hint = Hint.any_of(
            "mirror to another prefix",
            Hint("check what the tag is used for, and move it with {}", ImageSetting.OVERWRITE_TAGS),
        )
        super().__init__(
            f"{name}: refusing to move the tag: it names {digest}, and no record shows that its mirror has set it",
            hint=hint,
        )


class TargetFailed(ImageToolsError):
    """A target that keeps failing, so that no further images are copied."""

    def __init__(self, failure: MirrorFailure) -> None:
        """Create the error for the last failure."""
        super().__init__(f"the target keeps failing: {failure.error.message}", hint=failure.error.hint)


class UnexpectedMirror(ValueError):
    """A mirror in a directory or archive, where an index is required."""

    def __init__(self, name: str) -> None:
        """Create the error for the directory or archive."""
        super().__init__(f"{name}: a mirror can only be copied to a registry, with all of its images")


def partial_copy_error(error: OpmkitError) -> OpmkitError:
    """Return the error for an index that was put without some of its images."""
    if type(error) is not ImageToolsError and not isinstance(error, NotFound):  # other errors have their own causes
        return error
    hint = Hint("omit {}: many registries require all images of an index", ImageSetting.PLATFORM)
    return type(error)(error.message, hint=hint)
