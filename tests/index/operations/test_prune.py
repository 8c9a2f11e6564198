"""Tests of prune and prune-stranded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.index.errors import UnknownPackage
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.operations.prune import (
    prune_catalog,
    prune_database,
    prune_stranded_in_catalog,
    prune_stranded_in_database,
)
from opmkit.index.operations.remove import remove_from_catalog
from opmkit.index.sqlite import replace_database
from tests.index.builders import bundle
from tests.index.operations.catalogs import TWO_PACKAGES
from tests.index.recorded_steps import replay
from tests.kit.edits import catalog
from tests.kit.shared import Case, cases, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.sqlite import IndexDatabase


@needs_shared
@pytest.mark.parametrize("case", cases("prune", "prune-stranded"), ids=str)
def test_database_equals_recorded_result(case: Case, tmp_path: Path) -> None:
    replay(case, tmp_path / "index.db")


def names(database: IndexDatabase) -> list[str]:
    return [name for (name,) in database.connection.execute("SELECT name FROM operatorbundle ORDER BY name")]


def strand(database: IndexDatabase, package: str) -> None:
    """Delete a package without its bundles."""
    for table, column in (("package", "name"), ("channel", "package_name"), ("channel_entry", "package_name")):
        database.connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (package,))


def test_prunes_packages_and_stranded_bundles(tmp_path: Path) -> None:
    with replace_database(tmp_path / "index.db") as database:
        add_bundles(database, [bundle("1.0.0", package=package) for package in "abc"])
        strand(database, "a")
        assert prune_database(database, {"b", "c"}).removed == ()
        assert names(database) == ["a.v1.0.0", "b.v1.0.0", "c.v1.0.0"]
        with pytest.raises(UnknownPackage, match='"x" not found'):
            prune_database(database, {"b", "x"})
        assert names(database) == ["a.v1.0.0", "b.v1.0.0", "c.v1.0.0"]
        pruned = prune_database(database, {"b", "x"}, permissive=True)
        assert (pruned.removed, [error.message for error in pruned.failures]) == (("c",), ['package "x" not found'])
        assert names(database) == ["b.v1.0.0"]


def test_deprecated_bundle_is_removed_with_its_package(tmp_path: Path) -> None:
    with replace_database(tmp_path / "index.db") as database:
        add_bundles(database, [bundle("1.0.0", package=package) for package in "ab"])
        database.connection.execute("INSERT INTO deprecated VALUES ('a.v1.0.0'), ('gone')")
        prune_stranded_in_database(database)
        assert names(database) == ["a.v1.0.0", "b.v1.0.0"]
        strand(database, "a")
        prune_stranded_in_database(database)
        assert names(database) == ["b.v1.0.0"]
        assert database.connection.execute("SELECT * FROM deprecated").fetchall() == []


@pytest.mark.parametrize(
    ("value", "retained"),
    [('{"packageName":"b"}', True), ('{"packageName":"x"}', False), ("{}", False), ('"x"', True), ("{", True)],
)
def test_bundle_of_unknown_package_is_removed(tmp_path: Path, value: str, *, retained: bool) -> None:
    with replace_database(tmp_path / "index.db") as database:
        add_bundles(database, [bundle("1.0.0", package=package) for package in "ab"])
        key = ("a.v1.0.0", "1.0.0", "registry.example.com/a:1.0.0")
        database.connection.execute("INSERT INTO properties VALUES ('olm.package', ?, ?, ?, ?)", (value, *key))
        prune_stranded_in_database(database)
        assert ("a.v1.0.0" in names(database)) == retained


def test_prunes_a_catalog_and_retains_blobs_without_package() -> None:
    assert prune_catalog(TWO_PACKAGES, ["bee"]).blobs == remove_from_catalog(TWO_PACKAGES, ["ape"]).blobs
    with pytest.raises(UnknownPackage, match='"x" not found'):
        prune_catalog(TWO_PACKAGES, ["bee", "x"])
    edit = prune_catalog(TWO_PACKAGES, ["bee", "x"], permissive=True)
    assert (edit.blobs, len(edit.failures)) == (remove_from_catalog(TWO_PACKAGES, ["ape"]).blobs, 1)
    assert [blob.name for blob in prune_catalog(TWO_PACKAGES, []).blobs] == ["without package"]
    assert prune_catalog(TWO_PACKAGES, ["ape", "bee"]).blobs is TWO_PACKAGES


def test_prunes_stranded_bundles_of_a_catalog_with_their_deprecations() -> None:
    strays = catalog({"ape": {"": ["ape.v0.9.0", "bee.v1.0.0"]}})
    result = prune_stranded_in_catalog(TWO_PACKAGES + strays).blobs
    assert [bundle.name for bundle in result.bundles] == ["ape.v1.0.0", "ape.v1.1.0", "bee.v1.0.0"]
    assert result.channels == TWO_PACKAGES.channels
    assert [[entry.name for entry in blob.entries] for blob in result.deprecations] == [["ape.v1.0.0"], [""]]
    assert result.deprecations[1] is TWO_PACKAGES.deprecations[1]
    assert prune_stranded_in_catalog(TWO_PACKAGES).blobs is TWO_PACKAGES


def test_bundle_without_entry_is_stranded_even_if_replaced() -> None:
    blobs = catalog({"ape": {"alpha": ["ape.v1.2.0 > ape.v1.0.0, ape.v1.1.0"], "": ["ape.v1.0.0", "ape.v1.1.0"]}})
    assert [bundle.name for bundle in prune_stranded_in_catalog(blobs).blobs.bundles] == ["ape.v1.2.0"]
