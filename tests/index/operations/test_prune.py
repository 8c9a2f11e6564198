"""Reducing an index to some packages, or to what channels lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.index.errors import UnknownPackage
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.operations.prune import prune_database, prune_stranded_in_database
from opmkit.index.sqlite import replace_database
from tests.index.builders import bundle
from tests.index.recorded_steps import replay
from tests.kit.shared import Case, cases, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.sqlite import IndexDatabase


@needs_shared
@pytest.mark.parametrize("case", cases("prune", "prune-stranded"), ids=str)
def test_database_equals_the_record(case: Case, tmp_path: Path) -> None:
    replay(case, tmp_path / "index.db")


def names(database: IndexDatabase) -> list[str]:
    return [name for (name,) in database.connection.execute("SELECT name FROM operatorbundle ORDER BY name")]


def strand(database: IndexDatabase, package: str) -> None:
    """Take the package away and leave its bundles, as an interrupted program does."""
    for table, column in (("package", "name"), ("channel", "package_name"), ("channel_entry", "package_name")):
        database.connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (package,))


def test_keeps_what_is_named_and_no_stranded_bundle(tmp_path: Path) -> None:
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


def test_a_deprecated_bundle_goes_with_its_package(tmp_path: Path) -> None:
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
    ("value", "stays"),
    [('{"packageName":"b"}', True), ('{"packageName":"x"}', False), ("{}", False), ('"x"', True), ("{", True)],
)
def test_a_bundle_of_a_package_that_is_not_there_goes(tmp_path: Path, value: str, *, stays: bool) -> None:
    with replace_database(tmp_path / "index.db") as database:
        add_bundles(database, [bundle("1.0.0", package=package) for package in "ab"])
        key = ("a.v1.0.0", "1.0.0", "registry.example.com/a:1.0.0")
        database.connection.execute("INSERT INTO properties VALUES ('olm.package', ?, ?, ?, ?)", (value, *key))
        prune_stranded_in_database(database)
        assert ("a.v1.0.0" in names(database)) == stays
