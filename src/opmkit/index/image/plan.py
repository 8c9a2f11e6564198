"""The plan of a new index image, and what was built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.imagetools.repository import TAG_MOVE_WINDOW
from opmkit.index.modes import OnConflict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.spec import Platform
    from opmkit.index.change import AppliedChange
    from opmkit.index.fbc.csv_metadata import MigrationLevel

DEFAULT_TAG = "operator-registry-index:latest"
CONTEXT_DOCKERFILE = "index.Dockerfile"


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The source, the base and the destination of a new index.

    ``from_index`` is an index image, or a directory or file on disk, which is changed in place if there are no
    ``tags``. With ``to_catalog`` the new index is a file-based catalog, even if the old one is a database; its bundles
    are migrated to ``level``, if given.

    ``platforms`` select those of the base; by default the new image has all of them. ``on_conflict`` applies if a tag
    has moved during the run, and ``settle`` is the number of seconds for which a tag that was moved in place must
    remain unchanged. ``context`` is the directory that receives the index and a Dockerfile, unless ``dockerfile`` is a
    path elsewhere; then no image is built. A ``dry_run`` builds and writes nothing. With ``plan_updates`` the result of
    the change says what clusters do with the new index.

    ``verify`` is called with the index image that is read, again after a rebase, and returns the verified one by
    digest.
    """

    tags: tuple[str, ...] = (DEFAULT_TAG,)
    from_index: str | None = None
    to_catalog: bool = False
    level: MigrationLevel | None = None
    binary_image: str | None = None
    platforms: tuple[Platform, ...] = ()
    push: bool = False
    on_conflict: OnConflict = OnConflict.FAIL
    settle: float = TAG_MOVE_WINDOW
    context: Path | None = None
    dockerfile: str = CONTEXT_DOCKERFILE
    dry_run: bool = False
    plan_updates: bool = False
    verify: Callable[[ImageReference], ImageReference] | None = None

    def verified(self, image: ImageReference) -> ImageReference:
        """Return the reference to read an index image by; raises what ``verify`` does."""
        return self.verify(image) if self.verify else image


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """The names and the digest of a new index image, empty if none was built, and the result of the change."""

    references: tuple[str, ...]
    digest: str
    result: AppliedChange

    def to_dict(self) -> dict[str, Any]:
        """Return the names, the digest and the result of the change in JSON types.

        ``references`` are missing if no image was built, and ``digest`` if it is unknown.
        """
        names = {"references": list(self.references)} if self.references else {}
        digest = {"digest": self.digest} if self.references and self.digest else {}
        return {**names, **digest, **self.result.to_dict()}
