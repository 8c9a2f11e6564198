"""Tests of the rows of list commands, compared with recorded results of Go opm."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.convert.database_blobs import load_catalog
from opmkit.index.errors import CatalogError, UnknownPackage
from opmkit.index.fbc.blobs import BundleBlob, EntryBlob
from opmkit.index.fbc.model import Catalog, Channel, Package
from opmkit.index.operations.list import list_bundles, list_channels, list_packages
from opmkit.index.sqlite import open_database
from tests.index.recorded_adds import REGISTRY, add_steps
from tests.kit.shared import Case, cases, needs_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

LISTINGS: dict[str, Callable[..., Sequence[Any]]] = {
    "packages": list_packages,
    "channels": list_channels,
    "bundles": list_bundles,
}


def joined_cells(row: Any) -> str:
    """Join the cells of a row that are not empty, as in the recorded results."""
    cells = (",".join(cell) if isinstance(cell, tuple) else cell for cell in astuple(row))
    return " ".join(filter(None, cells)).replace(REGISTRY, "{registry}")


def listing(database: Path, kind: str, packages: list[str]) -> list[str]:
    with open_database(database) as opened:
        catalog = load_catalog(opened)
    return [joined_cells(row) for row in LISTINGS[kind](catalog, *packages)]


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize("case", [case for case in cases("list") if add_steps(case.record)], ids=str)
def test_rows_equal_recorded_results(case: Case, tmp_path: Path) -> None:
    database = tmp_path / "index.db"
    steps = add_steps(case.record) or []
    if any(step["exit"] for step in case.record["steps"]):
        # Go opm lists the result of a failed add, which equals that of a permissive one
        steps = [replace(step, permissive=True) for step in steps]
    for step in steps:
        step.run(database)
    for output in case.record["outputs"]:
        position = output["argv"].index("{db}")
        kind, packages = output["argv"][position - 1], output["argv"][position + 1 :]
        if output["exit"] == 0:
            assert listing(database, kind, packages) == output["stdout"][1:], output["argv"]
        else:
            with pytest.raises(CatalogError) as failure:
                listing(database, kind, packages)
            recorded = output["error"].encode().decode("unicode_escape").encode("latin-1").decode()
            assert failure.value.message.rpartition('": ')[2] in recorded


def test_unknown_package() -> None:
    entries = {"a.v1": EntryBlob("a.v1")}
    package = Package("a", "alpha", {"alpha": Channel("alpha", entries)}, {"a.v1": BundleBlob("a.v1", "a", "r/a:1")})
    with pytest.raises(UnknownPackage, match='package "b" not found') as failure:
        list_channels(Catalog({"a": package}), "b")
    assert "use one of the packages: a" in str(failure.value.hint)
