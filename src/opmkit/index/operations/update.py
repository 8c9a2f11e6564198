"""``update``: several changes of an index at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.index.change import Change, ChangeSequence
from opmkit.index.operations.add.change import AddBundles
from opmkit.index.operations.add.options import AddOptions
from opmkit.index.operations.prune import PrunePackages
from opmkit.index.operations.remove import RemovePackages
from opmkit.index.operations.truncate.change import TruncateBundles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.tools.tool import ContainerTool


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """Changes of an index that are made in the order of these attributes; None makes no change.

    Attributes:
        remove: Packages to remove.
        keep: Packages to keep, while all others are removed.
        add: Bundle images to add.
        deprecate: Bundle images to deprecate, with the removal of the versions below them.
        options: Options of adding bundles; ``permissive`` applies to all changes.
        allow_package_removal: Remove a package if the heads of all its channels are deprecated.
    """

    remove: Sequence[str] | None = None
    keep: Sequence[str] | None = None
    add: Sequence[str] | None = None
    deprecate: Sequence[str] | None = None
    options: AddOptions = field(default_factory=AddOptions)
    allow_package_removal: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is no change to make."""
        return all(names is None for names in (self.remove, self.keep, self.add, self.deprecate))

    def change(self, tool: ContainerTool, progress: Progress = NO_PROGRESS) -> ChangeSequence:
        """Return the changes as one; ``tool`` pulls the bundles to add."""
        permissive, changes = self.options.permissive, list[Change]()
        if self.remove is not None:
            changes.append(RemovePackages(self.remove, permissive=permissive))
        if self.keep is not None:
            changes.append(PrunePackages(self.keep, permissive=permissive))
        if self.add is not None:
            changes.append(AddBundles(tool, self.add, self.options, progress))
        if self.deprecate is not None:
            changes.append(
                TruncateBundles(self.deprecate, permissive=permissive, allow_package_removal=self.allow_package_removal)
            )
        return ChangeSequence(changes)
