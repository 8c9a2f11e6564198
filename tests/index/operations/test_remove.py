"""Tests of removing packages from databases and file-based catalogs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmkit.index.errors import DatabaseUnavailable, UnknownPackage
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.operations.remove import remove_from_catalog, remove_from_database
from opmkit.index.sqlite import IndexDatabase, replace_database
from opmkit.index.sqlite.removal import package_names, remove_bundle
from opmkit.index.sqlite.schema import create_schema, create_work_indexes
from tests.index.builders import bundle
from tests.index.operations.catalogs import TWO_PACKAGES
from tests.index.recorded_steps import replay
from tests.kit.edits import catalog
from tests.kit.shared import Case, cases, needs_shared


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An index with the packages a, b and c."""
    path = tmp_path / "index.db"
    with replace_database(path) as database:
        add_bundles(database, [bundle("1.0.0", package=package) for package in "abc"])
    return path


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize("case", cases("rm", "add-multi"), ids=str)
def test_database_equals_recorded_result(case: Case, tmp_path: Path) -> None:
    replay(case, tmp_path / "index.db")


def test_removes_all_rows_of_a_package(path: Path) -> None:
    with replace_database(path) as database:
        assert remove_from_database(database, ["b", "", "a"]).removed == ("b", "a")
    other = path.with_name("other.db")
    with replace_database(other) as database:
        add_bundles(database, [bundle("1.0.0", package="c")])
    assert path.read_bytes() == other.read_bytes()


def test_unknown_package_removes_nothing(path: Path) -> None:
    before = path.read_bytes()
    with (
        pytest.raises(UnknownPackage) as failure,
        replace_database(path, must_exist=True) as database,
    ):
        remove_from_database(database, ["a", "x", "y"])
    assert path.read_bytes() == before
    expected = "error deleting packages from database: error removing operator package x: no package found"
    assert failure.value.message.startswith(expected)
    assert "operator package y:" in failure.value.message
    assert str(failure.value.hint) == "use one of the packages: a, b, c"
    assert failure.value.exit_code == 1


def test_error_rolls_back_only_the_removal(path: Path) -> None:
    """A caller that catches the error can commit its other changes."""
    with replace_database(path) as database:
        with pytest.raises(UnknownPackage):
            remove_from_database(database, ["a", "a"])
        assert package_names(database) == ["a", "b", "c"]


def test_permissive_removes_existing_packages(path: Path) -> None:
    with replace_database(path) as database:
        result = remove_from_database(database, ["x", "a", "a"], permissive=True)
        assert package_names(database) == ["b", "c"]
    assert result.removed == ("a",)
    assert [failure.message.count("no package found") for failure in result.failures] == [2]


def test_removes_package_without_entries(path: Path) -> None:
    with replace_database(path) as database:
        database.connection.execute("INSERT INTO package (name) VALUES ('empty')")
        assert remove_from_database(database, ["empty"]).removed == ("empty",)


def test_hint_lists_at_most_20_packages(path: Path) -> None:
    with replace_database(path) as database:
        add_bundles(database, [bundle("1.0.0", package=f"p{number}") for number in range(30)])
        with pytest.raises(UnknownPackage) as failure:
            remove_from_database(database, ["x"])
    assert str(failure.value.hint).endswith("and 13 more")


def test_missing_database_is_not_created(tmp_path: Path) -> None:
    with (
        pytest.raises(DatabaseUnavailable, match="No such file"),
        replace_database(tmp_path / "index.db", must_exist=True) as database,
    ):
        remove_from_database(database, [])
    assert list(tmp_path.iterdir()) == []


USES = st.lists(st.tuples(st.sampled_from(["api_provider", "api_requirer"]), st.sampled_from("KLM"), st.integers(1, 4)))


@given(uses=USES, deleted=st.permutations(range(1, 5)))
def test_work_indexes_do_not_change_the_effect_of_triggers(
    uses: list[tuple[str, str, int]], deleted: list[int]
) -> None:
    """The faster triggers of the work copy delete the same APIs as those of the schema."""
    results = []
    for prepare in (lambda _: None, create_work_indexes):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            create_schema(connection, "")
            prepare(connection)
            connection.execute("PRAGMA foreign_keys = ON")
            for kind in "KLM":
                connection.execute("INSERT INTO api VALUES ('g', 'v1', ?, '')", (kind,))
            for table, kind, number in uses:
                connection.execute(f"INSERT INTO {table} VALUES ('g', 'v1', ?, ?, NULL, NULL)", (kind, str(number)))
            states = []
            for number in deleted:
                remove_bundle(IndexDatabase(connection, Path()), str(number))
                states += [
                    connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4").fetchall()
                    for table in ("api", "api_provider", "api_requirer")
                ]
            results.append(states)
    assert results[0] == results[1]


def test_removes_all_blobs_of_a_package_from_a_catalog() -> None:
    result = remove_from_catalog(TWO_PACKAGES, ["", "ape"])
    assert {blob.package for blob in result.blobs} == {"bee", ""}
    assert all(any(blob is old for old in TWO_PACKAGES) for blob in result.blobs)
    assert (result.warnings, result.failures) == ((), ())


def test_unknown_package_removes_nothing_from_a_catalog() -> None:
    with pytest.raises(UnknownPackage) as failure:
        remove_from_catalog(TWO_PACKAGES, ["ape", "x", "ape"])
    assert failure.value.message == 'package "x" not found'
    assert str(failure.value.hint) == "use one of the packages: ape, bee"


def test_permissive_removes_existing_packages_from_a_catalog() -> None:
    result = remove_from_catalog(TWO_PACKAGES, ["x", "ape"], permissive=True)
    assert result.blobs == remove_from_catalog(TWO_PACKAGES, ["ape"]).blobs
    assert [type(failure) for failure in result.failures] == [UnknownPackage]


def test_removes_package_with_blobs_of_other_schemas_only() -> None:
    notes = catalog({}, {"schema": "example.com.note", "package": "ape", "name": "note"})
    assert list(remove_from_catalog(notes, ["ape"]).blobs) == []
