"""Changes that plan what clusters do with the changed index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opmkit.index.change import Change, ChangeResult, EditResult
from opmkit.index.fbc.model import Catalog
from opmkit.index.plan.edges import review_updates
from opmkit.index.plan.paths import plan_updates
from opmkit.index.plan.result import UpdatePlan

if TYPE_CHECKING:
    from opmkit.index.diff.model import IndexDiff
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.load import LoadResult
    from opmkit.index.sqlite import IndexDatabase


@dataclass(frozen=True, slots=True)
class PlannedChange(Change):
    """A change, with the plan of the updates of all versions that the index before it can have left installed."""

    change: Change

    @property
    def supports_databases(self) -> bool:
        """Whether a database can store the change."""
        return self.change.supports_databases

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Change a database; raises InvalidCatalog if its content is no valid catalog before or after the change."""
        from opmkit.index.convert.database_blobs import load_catalog

        before = load_catalog(database)
        result = self.change.apply_to_database(database)
        return replace(result, plan=_plan_catalogs(load_catalog(database), before))

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Return the changed catalog; raises InvalidCatalog if it is invalid before or after the change."""
        return _with_plan(self.change.apply_to_catalog(blobs), blobs)

    def apply_to_loaded(self, loaded: LoadResult) -> EditResult:
        """Return the changed catalog for one that was read from files."""
        return _with_plan(self.change.apply_to_loaded(loaded), loaded.blobs)

    def review(self, diff: IndexDiff) -> tuple[str, ...]:
        """Return the warnings of the change."""
        return self.change.review(diff)


def _with_plan(edit: EditResult, before: Blobs) -> EditResult:
    return replace(edit, plan=plan_blobs(edit.blobs, before))


def plan_blobs(blobs: Blobs, published: Blobs) -> UpdatePlan:
    """Plan the updates with OLM v0 to a file-based catalog; raises InvalidCatalog if one of the catalogs is invalid."""
    return _plan_catalogs(Catalog.from_blobs(blobs), Catalog.from_blobs(published))


def _plan_catalogs(catalog: Catalog, published: Catalog) -> UpdatePlan:
    reviewed = review_updates(tuple(plan_updates(catalog, published)), catalog, published)
    return UpdatePlan(reviewed.paths, reviewed.refused)
