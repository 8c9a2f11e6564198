"""Validation of an index that is published as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.core.hints import Hint
from opmkit.index.change import Change, ChangeResult, EditResult
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.check.result import validate
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.load import LoadResult
from opmkit.index.fbc.migrate import MigrationLevel, migrate
from opmkit.index.hint_terms import IndexOperation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.finding import Finding
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.sqlite import IndexDatabase


@dataclass(frozen=True, slots=True)
class ContentReport:
    """Numbers of packages, channels and bundles of an index."""

    source: str
    packages: int
    channels: int
    bundles: int

    def lines(self) -> Iterator[str]:
        """Yield the numbers in one line."""
        yield f"{self.source}: packages: {self.packages}, channels: {self.channels}, bundles: {self.bundles}"

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers in JSON types."""
        numbers = {"packages": self.packages, "channels": self.channels, "bundles": self.bundles}
        return {"source": self.source, "content": numbers}


@dataclass(frozen=True, slots=True)
class RequireValid(Change):
    """Validate an index by the rules of the newest release of operator-registry, and leave it as it is.

    Attributes:
        source: Name of the index for messages.
        level: Level that the bundles of a file-based catalog are migrated to.
    """

    source: str
    level: MigrationLevel = MigrationLevel.NONE

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Validate the file-based catalog that the database converts to."""
        from opmkit.index.convert.database_blobs import database_to_blobs

        result = self.apply_to_catalog(database_to_blobs(database))
        return ChangeResult(warnings=result.warnings, report=result.report)

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Validate a file-based catalog."""
        return self.apply_to_loaded(LoadResult(blobs))

    def apply_to_loaded(self, loaded: LoadResult) -> EditResult:
        """Validate a file-based catalog, including the syntax of its documents.

        Raises:
            InvalidCatalog: The catalog is invalid; the error lists all findings with their files and lines.
        """
        result = validate(loaded, CatalogCompat.NEWEST, allow_empty=True)
        if result.errors:
            first, *others = map(_describe, result.errors)
            hint = next((finding.hint for finding in result.errors if finding.hint), "")
            default = Hint("list all findings with {}", IndexOperation.VALIDATE_CATALOG)
            raise InvalidCatalog(
                f"{self.source}: invalid catalog: {first}",
                details=[f"  {line}" for line in others],
                hint=hint or default,
            )
        blobs = loaded.blobs
        report = ContentReport(self.source, len(blobs.packages), len(blobs.channels), len(blobs.bundles))
        warnings = [f"{self.source}: {_describe(finding)}" for finding in result.findings]
        warnings += [] if blobs.packages else [f"{self.source}: the catalog has no packages"]
        return EditResult(migrate(blobs, self.level), warnings=tuple(warnings), report=report)


def _describe(finding: Finding) -> str:
    return f"{finding} [{finding.rule}]"
