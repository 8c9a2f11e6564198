"""Databases of older schemas: brought up to date as the reference tool does it, where OPMKIT_REFERENCE_OPM names it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.errors import InvalidDatabase
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.operations.prune import prune_database
from opmkit.index.operations.remove import remove_from_database
from opmkit.index.sqlite import SCHEMA_VERSION, open_database, replace_database
from tests.index.builders import bundle
from tests.index.sqlite.old_databases import BUNDLES, write_old_database
from tests.kit.shared import dump_index, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.sqlite import IndexDatabase

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPM", "")

needs_reference = pytest.mark.skipif(not REFERENCE, reason="OPMKIT_REFERENCE_OPM does not name the reference tool")
every_level = pytest.mark.parametrize("level", range(SCHEMA_VERSION))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


def migrated(path: Path) -> Path:
    """A copy of the database, brought up to date."""
    ours = path.with_name("ours.db")
    shutil.copyfile(path, ours)
    with replace_database(ours):
        pass
    return ours


def migrated_by_reference(path: Path) -> Path:
    theirs = path.with_name("theirs.db")
    shutil.copyfile(path, theirs)
    argv = [REFERENCE, "registry", "add", "--database", theirs.name, "--bundle-images", ""]
    done = subprocess.run(argv, cwd=path.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return theirs


def assert_same_index(ours: Path, theirs: Path) -> None:
    left, right = (dump_index(path, "registry.example.com") for path in (ours, theirs))
    assert left["schema_version"] == right["schema_version"] == SCHEMA_VERSION
    for table, rows in right["tables"].items():
        assert left["tables"][table] == rows, f"table {table}"


@needs_shared
@needs_reference
@pytest.mark.parametrize("level", range(SCHEMA_VERSION))
@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
def test_equals_what_the_reference_makes(path: Path, level: int, *, filled: bool) -> None:
    """The reference fails on databases before schema 5 that are not empty: those are to equal the same of schema 5."""
    with_images = level not in (0, 1)
    write_old_database(path, level, filled=filled, images=with_images)
    reference = path.with_name("reference.db")
    write_old_database(reference, max(level, 5) if filled else level, filled=filled, images=with_images)
    assert_same_index(migrated(path), migrated_by_reference(reference))


def rows(database: IndexDatabase, statement: str) -> list[tuple[Any, ...]]:
    return database.connection.execute(statement).fetchall()


@every_level
def test_an_old_database_is_read_from_a_copy(path: Path, tmp_path: Path, level: int) -> None:
    write_old_database(path, level)
    before = path.read_bytes()
    with open_database(path) as database:
        edges = rows(database, "SELECT name, version, replaces, skips FROM operatorbundle ORDER BY name")
        assert edges == [(name, *values[:1], *values[2:4]) for name, values in BUNDLES.items()]
        required = rows(database, "SELECT kind, operatorbundle_name, operatorbundle_version FROM api_requirer")
        assert required == [("Thing", "b.v1", "1.0.0")]
        provided = rows(database, "SELECT DISTINCT operatorbundle_name FROM api_provider ORDER BY 1")
        assert provided == [("a.v1",), ("a.v2",), ("a.v3",)]
        images = rows(database, "SELECT image FROM related_image WHERE operatorbundle_name = 'a.v1' ORDER BY 1")
        assert images == [("reg/a.v1",), ("reg/tool",)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            database.connection.execute("DELETE FROM package")
        assert database.path == path
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@every_level
def test_an_old_database_can_be_changed(path: Path, tmp_path: Path, level: int) -> None:
    write_old_database(path, level)
    with replace_database(path) as database:
        remove_from_database(database, ["b"])
        add_bundles(database, [bundle("1.0.0")])
    with open_database(path) as database:
        assert rows(database, "SELECT version FROM schema_migrations") == [(SCHEMA_VERSION,)]
        names = [name for (name,) in rows(database, "SELECT name FROM operatorbundle ORDER BY name")]
        assert names == ["a.v1", "a.v2", "a.v3", "demo.v1.0.0"]
        assert rows(database, "SELECT * FROM api_requirer") == []
        # Removing the bundle that provides nothing, with the last row of api_requirer, leaves the APIs of the others.
        assert rows(database, "SELECT kind FROM api ORDER BY 1") == [("Other",)]
    assert list(tmp_path.iterdir()) == [path]


def test_deprecations_come_from_properties_and_go_with_their_bundles(path: Path) -> None:
    for level, expected in ((9, [("a.v2",)]), (12, [("a.v2",)])):
        path.unlink(missing_ok=True)
        write_old_database(path, level)
        with open_database(path) as database:
            assert rows(database, "SELECT * FROM deprecated") == expected


def test_all_dependencies_of_schema_8_get_the_value_of_the_first(path: Path) -> None:
    """An oversight of the reference that its users' databases have gone through."""
    write_old_database(path, 8)
    with open_database(path) as database:
        assert rows(database, "SELECT value FROM dependencies") == [('{"kind":"Thing"}',)] * 2


def test_a_database_from_before_schemas_were_numbered(path: Path) -> None:
    write_old_database(path, 0)
    ours = migrated(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE schema_migrations")
    assert migrated(path).read_bytes() == ours.read_bytes()


@pytest.mark.parametrize("csv", [None, "", "{", "[]", "{}", '{"metadata": {"name": "a.v1"}}', b"\xff"])
def test_bundles_whose_manifests_cannot_be_read_keep_what_they_have(path: Path, csv: str | bytes | None) -> None:
    write_old_database(path, 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE operatorbundle SET csv = ? WHERE name = 'a.v1'", (csv,))
    with open_database(path) as database:
        found = rows(database, "SELECT version FROM operatorbundle ORDER BY name")
        assert found == [(None,), ("2.0.0",), ("3.0.0",), ("1.0.0",)]


@pytest.mark.parametrize("table", ["operatorbundle", "channel_entry", "api"])
def test_tables_that_are_not_those_of_the_schema(path: Path, tmp_path: Path, table: str) -> None:
    write_old_database(path, 4)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"ALTER TABLE {table} RENAME TO mine")
    before = path.read_bytes()
    with pytest.raises(InvalidDatabase, match=f"not an index of its schema version 4: no such table: .*{table}"):
        remove_all(path)
    with pytest.raises(InvalidDatabase, match="schema version 4"), open_database(path):
        pass
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def remove_all(path: Path) -> None:
    with replace_database(path) as database:
        prune_database(database, ())
