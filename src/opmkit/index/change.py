"""The interface of a change to an index, and its atomic application to a database or a file-based catalog."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from opmkit.core.hints import Hint
from opmkit.core.json_types import to_json_types
from opmkit.core.scratch import ScratchDirectory
from opmkit.index.diff.model import IndexDiff, diff_states, read_state
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.sqlite import replace_database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opmkit.core.errors import OpmkitError
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.load import LoadResult
    from opmkit.index.plan.result import UpdatePlan
    from opmkit.index.sqlite import IndexDatabase


class ChangeReport(Protocol):
    """Details of a change that the difference between before and after does not show."""

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """Return the report in JSON types."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """Warnings, skipped images and tolerated failures of a change.

    ``skipped`` lists bundle images that the index already had, ``failures`` the errors that a permissive change
    ignored, and ``plan`` what becomes of installed versions, if that was asked for.
    """

    warnings: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failures: tuple[OpmkitError, ...] = ()
    report: ChangeReport | None = None
    plan: UpdatePlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditResult(ChangeResult):
    """A file-based catalog after a change. Unchanged blobs are the same objects as before."""

    blobs: Blobs = field(kw_only=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedChange(ChangeResult):
    """The difference that a change made to an index."""

    diff: IndexDiff = field(kw_only=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the result in JSON types: the report, the diff, and lists of warnings, skipped images and failures.

        ``plan`` is missing if none was asked for.
        """
        return {
            **to_json_types(self.report.as_dict() if self.report else {}),
            **self.diff.to_dict(),
            "warnings": list(self.warnings),
            "skipped": list(self.skipped),
            "failures": [failure.to_dict() for failure in self.failures],
            **({"plan": self.plan.to_dict()} if self.plan else {}),
        }

    @classmethod
    def from_result(cls, diff: IndexDiff, result: ChangeResult, warnings: tuple[str, ...] = ()) -> AppliedChange:
        """Combine the result of a change with the difference that it made, and warnings about it."""
        return cls(
            diff,
            warnings=result.warnings + warnings,
            skipped=result.skipped,
            failures=result.failures,
            report=result.report,
            plan=result.plan,
        )


class DatabaseChange(ABC):
    """A change of an index database."""

    __slots__ = ()

    @property
    def supports_databases(self) -> bool:
        """Whether a database can store the change, not only a file-based catalog."""
        return True

    def check_database_support(self) -> None:
        """Raise CatalogError if only a file-based catalog can store the change."""
        if not self.supports_databases:
            raise _unsupported_by_databases()

    @abstractmethod
    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Change a database.

        Raises:
            CatalogError: The change failed or is unsupported; the caller rolls back.
        """

    def review(self, diff: IndexDiff) -> tuple[str, ...]:
        """Return what users of installed versions lose by the difference that the change makes, before it is stored.

        Raises:
            CatalogError: The difference is unwanted, and nothing is stored.
        """
        from opmkit.index.diff.report import loss_lines

        return tuple(loss_lines(diff))


class Change(DatabaseChange):
    """A change of an index of either kind."""

    __slots__ = ()

    @abstractmethod
    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Return the changed catalog.

        Raises:
            CatalogError: The change failed.
        """

    def apply_to_loaded(self, loaded: LoadResult) -> EditResult:
        """Return the changed catalog for one that was read from files.

        Raises:
            InvalidCatalog: Documents cannot be read.
            CatalogError: The change failed.
        """
        from opmkit.index.fbc.findings import raise_findings

        raise_findings(loaded.errors)
        return self.apply_to_catalog(loaded.blobs)


class CatalogChange(Change):
    """A change that only a file-based catalog can store."""

    __slots__ = ()

    @property
    def supports_databases(self) -> bool:
        """False."""
        return False

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Raise CatalogError."""
        raise _unsupported_by_databases()


def _unsupported_by_databases() -> CatalogError:
    return CatalogError(
        "index databases do not support this change: they store only the channels and edges that bundles declare",
        hint=Hint("convert the index with {}", IndexSetting.TO_CATALOG),
    )


@dataclass(frozen=True, slots=True)
class ChangeSequence(Change):
    """Several changes, applied in order as a single change."""

    changes: Sequence[Change]

    @property
    def supports_databases(self) -> bool:
        """Whether a database can store all of the changes."""
        return all(change.supports_databases for change in self.changes)

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Apply every change."""
        return _combine_results([change.apply_to_database(database) for change in self.changes])

    def review(self, diff: IndexDiff) -> tuple[str, ...]:
        """Return the warnings of all changes, each once."""
        return tuple(dict.fromkeys(warning for change in self.changes for warning in change.review(diff)))

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Apply every change."""
        results: list[EditResult] = []
        for change in self.changes:
            result = change.apply_to_catalog(blobs)
            blobs = result.blobs
            results.append(result)
        combined = _combine_results(results)
        return EditResult(blobs, warnings=combined.warnings, skipped=combined.skipped, failures=combined.failures)


def _combine_results(results: Iterable[ChangeResult]) -> ChangeResult:
    results = list(results)
    return ChangeResult(
        warnings=tuple(dict.fromkeys(warning for result in results for warning in result.warnings)),
        skipped=tuple(image for result in results for image in result.skipped),
        failures=tuple(failure for result in results for failure in result.failures),
    )


def change_database(
    path: Path, change: DatabaseChange, *, must_exist: bool = False, dry_run: bool = False, durable: bool = True
) -> AppliedChange:
    """Change the index database at ``path`` atomically; with ``dry_run``, change a copy.

    Without ``durable``, do not sync the file to disk.

    Raises:
        CatalogError: The database is invalid or the change failed; the file is unchanged, or still does not exist.
    """
    change.check_database_support()
    if dry_run:
        with ScratchDirectory("opm-dry-run-") as scratch:
            copy = Path(scratch) / path.name
            if path.exists():
                shutil.copyfile(path, copy)
            return change_database(copy, change, must_exist=must_exist, durable=False)
    with replace_database(path, must_exist=must_exist, durable=durable) as database:
        before = read_state(database)
        result = change.apply_to_database(database)
        diff = diff_states(before, read_state(database))
        return AppliedChange.from_result(diff, result, change.review(diff))


def change_catalog(root: Path, change: Change, *, dry_run: bool = False) -> AppliedChange:
    """Change the file-based catalog in the directory ``root`` atomically; with ``dry_run``, write nothing.

    Waits for other processes that change the catalog. Files without a changed blob are not written.

    Raises:
        InvalidCatalog: The catalog cannot be read.
        CatalogError: The change failed.
    """
    from opmkit.core.locks import locked_directory
    from opmkit.index.diff.fbc import diff_blobs
    from opmkit.index.fbc.load import load_directory
    from opmkit.index.fbc.rewrite import apply_changes, plan_changes

    with nullcontext() if dry_run else locked_directory(root):
        loaded = load_directory(root)
        edit = change.apply_to_loaded(loaded)
        diff = diff_blobs(loaded.blobs, edit.blobs)
        warnings = change.review(diff)
        rewritten = plan_changes(root, loaded.blobs, edit.blobs)
        if not dry_run:
            apply_changes(root, rewritten)
    return AppliedChange.from_result(diff, edit, warnings)
