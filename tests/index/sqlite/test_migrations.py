"""Tests of migrations from older schemas, compared with Go opm if OPMKIT_REFERENCE_OPM is set."""

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

GO_OPM = os.environ.get("OPMKIT_REFERENCE_OPM", "")

needs_go_opm = pytest.mark.skipif(not GO_OPM, reason="OPMKIT_REFERENCE_OPM is not set")
every_level = pytest.mark.parametrize("level", range(SCHEMA_VERSION))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


def migrated(path: Path) -> Path:
    """Migrate a copy of the database."""
    ours = path.with_name("ours.db")
    shutil.copyfile(path, ours)
    with replace_database(ours):
        pass
    return ours


def migrated_by_go_opm(path: Path) -> Path:
    theirs = path.with_name("theirs.db")
    shutil.copyfile(path, theirs)
    argv = [GO_OPM, "registry", "add", "--database", theirs.name, "--bundle-images", ""]
    done = subprocess.run(argv, cwd=path.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return theirs


def assert_same_index(ours: Path, theirs: Path) -> None:
    left, right = (dump_index(path, "registry.example.com") for path in (ours, theirs))
    assert left["schema_version"] == right["schema_version"] == SCHEMA_VERSION
    for table, rows in right["tables"].items():
        assert left["tables"][table] == rows, f"table {table}"


@needs_shared
@needs_go_opm
@pytest.mark.parametrize("level", range(SCHEMA_VERSION))
@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
def test_result_equals_that_of_operator_registry(path: Path, level: int, *, filled: bool) -> None:
    """Go opm cannot migrate schemas 0 to 4 with content; compare them with the same content in schema 5."""
    with_images = level not in (0, 1)
    write_old_database(path, level, filled=filled, images=with_images)
    comparable = path.with_name("comparable.db")
    write_old_database(comparable, max(level, 5) if filled else level, filled=filled, images=with_images)
    assert_same_index(migrated(path), migrated_by_go_opm(comparable))


def rows(database: IndexDatabase, statement: str) -> list[tuple[Any, ...]]:
    return database.connection.execute(statement).fetchall()


@pytest.mark.slow
@every_level
def test_old_database_is_read_from_a_copy(path: Path, tmp_path: Path, level: int) -> None:
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


@pytest.mark.slow
@every_level
def test_old_database_can_be_changed(path: Path, tmp_path: Path, level: int) -> None:
    write_old_database(path, level)
    with replace_database(path) as database:
        remove_from_database(database, ["b"])
        add_bundles(database, [bundle("1.0.0")])
    with open_database(path) as database:
        assert rows(database, "SELECT version FROM schema_migrations") == [(SCHEMA_VERSION,)]
        names = [name for (name,) in rows(database, "SELECT name FROM operatorbundle ORDER BY name")]
        assert names == ["a.v1", "a.v2", "a.v3", "demo.v1.0.0"]
        assert rows(database, "SELECT * FROM api_requirer") == []
        # Deleting the last row of api_requirer deletes its API; other APIs remain.
        assert rows(database, "SELECT kind FROM api ORDER BY 1") == [("Other",)]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_deprecations_are_created_from_properties(path: Path) -> None:
    for level, expected in ((9, [("a.v2",)]), (12, [("a.v2",)])):
        path.unlink(missing_ok=True)
        write_old_database(path, level)
        with open_database(path) as database:
            assert rows(database, "SELECT * FROM deprecated") == expected


def test_all_dependencies_of_schema_8_get_the_first_value(path: Path) -> None:
    """This is a bug of operator-registry that existing databases contain."""
    write_old_database(path, 8)
    with open_database(path) as database:
        assert rows(database, "SELECT value FROM dependencies") == [('{"kind":"Thing"}',)] * 2


def test_database_without_schema_version(path: Path) -> None:
    write_old_database(path, 0)
    ours = migrated(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE schema_migrations")
    assert migrated(path).read_bytes() == ours.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("csv", [None, "", "{", "[]", "{}", '{"metadata": {"name": "a.v1"}}', b"\xff"])
def test_bundle_with_invalid_manifests_is_retained(path: Path, csv: str | bytes | None) -> None:
    write_old_database(path, 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE operatorbundle SET csv = ? WHERE name = 'a.v1'", (csv,))
    with open_database(path) as database:
        versions = rows(database, "SELECT version FROM operatorbundle ORDER BY name")
        assert versions == [(None,), ("2.0.0",), ("3.0.0",), ("1.0.0",)]


@pytest.mark.parametrize("table", ["operatorbundle", "channel_entry", "api"])
def test_rejects_database_without_the_tables_of_its_schema(path: Path, tmp_path: Path, table: str) -> None:
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
