"""A change of an index whose effects a test defines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.change import Change, ChangeResult, EditResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.sqlite import IndexDatabase


@dataclass(frozen=True)
class CustomChange(Change):
    """A change made of functions; databases are unsupported if ``database`` is None."""

    database: Callable[[IndexDatabase], object] | None = None
    catalog: Callable[[Blobs], Blobs] | None = None

    @property
    def supports_databases(self) -> bool:
        return self.database is not None

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        assert self.database
        self.database(database)
        return ChangeResult()

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        return EditResult(self.catalog(blobs) if self.catalog else blobs)


NO_CHANGE = CustomChange(lambda _: None)
