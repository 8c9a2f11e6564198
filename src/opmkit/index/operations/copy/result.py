"""The result of copying packages."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.index.fbc.blobs import Blobs


class CopyAction(StrEnum):
    """Action of a copy for a package."""

    ADDED = "added"
    REPLACED = "replaced"
    EQUAL = "equal"
    RETAINED = "retained"


_TEXTS = {
    CopyAction.ADDED: "copied from {source}",
    CopyAction.REPLACED: "copied from {source}, preferred to {target}",
    CopyAction.EQUAL: "not copied: equal in {target}",
    CopyAction.RETAINED: "not copied: {target} preferred to {source}",
}


@dataclass(frozen=True, slots=True)
class CopiedPackage:
    """A package that was named, or that is required, and what the copy does with it.

    Attributes:
        package: its name.
        action: what the copy does with it.
        required_by: the requirements of other packages that it meets, none for a package that was named.
    """

    package: str
    action: CopyAction
    required_by: tuple[str, ...] = ()

    def line(self, source: str, target: str) -> str:
        """Format the package, with the reason if it was not named."""
        action = _TEXTS[self.action].format(source=source, target=target)
        return f"package {self.package}: {action}{''.join(f'; {reason}' for reason in self.required_by)}"


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The packages of a copy: first those that were named, then their dependencies."""

    source: str
    target: str
    packages: tuple[CopiedPackage, ...]

    def lines(self) -> Iterator[str]:
        """Yield a line for each package."""
        for package in self.packages:
            yield package.line(self.source, self.target)

    def as_dict(self) -> dict[str, Any]:
        """Return the report in JSON types."""
        return {"source": self.source, "target": self.target, "copied": [asdict(each) for each in self.packages]}


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """The packages to write to the target, by name, with a report and warnings."""

    packages: Mapping[str, Blobs]
    result: CopyResult
    warnings: tuple[str, ...] = ()
