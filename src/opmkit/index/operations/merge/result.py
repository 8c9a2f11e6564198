"""The result of merging catalogs, and the error that lists conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexSetting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.operations.merge.differences import MergeDifference


class NamedCatalog(Struct, frozen=True):
    """A catalog to merge, and the name of its source for messages."""

    name: str
    blobs: Blobs


class PackageOrigin(Struct, frozen=True):
    """A package in the merged catalog.

    Attributes:
        package: Its name.
        source: The source that it is copied from.
        equal: Other sources with equal content.
        overruled: Sources with different content, which is left out.
    """

    package: str
    source: str
    equal: tuple[str, ...] = ()
    overruled: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Format the package with its sources."""
        equal = f", equal in {', '.join(self.equal)}" if self.equal else ""
        overruled = f", preferred to {', '.join(self.overruled)}" if self.overruled else ""
        return f"package {self.package}: from {self.source}{equal}{overruled}"


class MergeResult(Struct, frozen=True):
    """A merged catalog and the origin of each package, ordered by name."""

    blobs: Blobs
    origins: tuple[PackageOrigin, ...]

    def lines(self) -> Iterator[str]:
        """Yield a line for each package."""
        yield from map(str, self.origins)

    def as_dict(self) -> dict[str, Any]:
        """Return the report in JSON types."""
        return {"merged": [asdict(origin) for origin in self.origins]}


class PackageConflict(Struct, frozen=True):
    """A package with different content in two groups of sources with equal content each.

    ``reason`` is why the package is needed, if nobody named it.
    """

    package: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    differences: tuple[MergeDifference, ...]
    reason: str = ""

    def lines(self) -> Iterator[str]:
        """Yield the package and its sources, then the differences."""
        left, right = ", ".join(self.left), ", ".join(self.right)
        yield f'package "{self.package}": different content in {left} and {right}'
        for difference in self.differences:
            sides = (
                f": {difference.left} in {left}; {difference.right} in {right}" if difference.left else ": different"
            )
            yield f"  {difference.subject}{sides}"
        if self.reason:
            yield f"  needed: {self.reason}"

    def as_dict(self) -> dict[str, Any]:
        """Return the conflict in JSON types: the sources of both sides, and each difference with both sides."""
        return {
            "package": self.package,
            "left": list(self.left),
            "right": list(self.right),
            "differences": [asdict(difference) for difference in self.differences],
            **({"reason": self.reason} if self.reason else {}),
        }


class MergeConflict(CatalogError):
    """Packages have different content in several sources; the message lists each with what differs.

    Attributes:
        conflicts: The conflicts, ordered by package.
    """

    def __init__(self, conflicts: Sequence[PackageConflict]) -> None:
        """List the conflicts."""
        first, *others = (line for conflict in conflicts for line in conflict.lines())
        preference = f"{conflicts[0].package}={conflicts[0].left[0]}"
        hint = Hint("choose the source of whole packages with {}", IndexSetting.PREFER.with_value(preference))
        super().__init__(first, details=others, hint=hint)
        self.conflicts = tuple(conflicts)

    def as_dict(self) -> dict[str, Any]:
        """Return the conflicts in JSON types."""
        return {"conflicts": [conflict.as_dict() for conflict in self.conflicts]}
