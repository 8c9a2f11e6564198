"""What the list commands show, held against the records of the reference."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.errors import CatalogError, UnknownPackage
from opmkit.index.fbc.blobs import BundleBlob, EntryBlob
from opmkit.index.fbc.model import Catalog, Channel, Package
from opmkit.index.operations.list import list_bundles, list_channels, list_packages
from opmkit.index.rendering.database_catalog import load_catalog
from opmkit.index.sqlite import open_database
from tests.index.recorded_adds import REGISTRY, add_steps
from tests.kit.shared import Case, cases, needs_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

LISTINGS: dict[str, Callable[..., Iterable[object]]] = {
    "packages": list_packages,
    "channels": list_channels,
    "bundles": list_bundles,
}


def squeezed(row: Any) -> str:
    """A row as the records have it: its cells that are not empty."""
    cells = (",".join(cell) if isinstance(cell, tuple) else cell for cell in astuple(row))
    return " ".join(filter(None, cells)).replace(REGISTRY, "{registry}")


def listing(database: Path, what: str, packages: list[str]) -> list[str]:
    with open_database(database) as opened:
        catalog = load_catalog(opened)
    return [squeezed(row) for row in LISTINGS[what](catalog, *packages)]


@needs_shared
@pytest.mark.parametrize("case", [case for case in cases("list") if add_steps(case.record)], ids=str)
def test_rows_equal_the_record(case: Case, tmp_path: Path) -> None:
    database = tmp_path / "index.db"
    steps = add_steps(case.record) or []
    if any(step["exit"] for step in case.record["steps"]):
        # the records list what a failed add left behind; a permissive one leaves the same
        steps = [replace(step, permissive=True) for step in steps]
    for step in steps:
        step.run(database)
    for output in case.record["outputs"]:
        place = output["argv"].index("{db}")
        what, packages = output["argv"][place - 1], output["argv"][place + 1 :]
        if output["exit"] == 0:
            assert listing(database, what, packages) == output["stdout"][1:], output["argv"]
        else:
            with pytest.raises(CatalogError) as failure:
                listing(database, what, packages)
            recorded = output["error"].encode().decode("unicode_escape").encode("latin-1").decode()
            assert failure.value.message.rpartition('": ')[2] in recorded


def test_unknown_package_names_those_there_are() -> None:
    entries = {"a.v1": EntryBlob("a.v1")}
    package = Package("a", "alpha", {"alpha": Channel("alpha", entries)}, {"a.v1": BundleBlob("a.v1", "a", "r/a:1")})
    with pytest.raises(UnknownPackage, match='package "b" not found') as failure:
        list_channels(Catalog({"a": package}), "b")
    assert "use one of the packages: a" in str(failure.value.hint)
