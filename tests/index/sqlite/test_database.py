"""Tests of opening, replacing and compacting index databases."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import OpmkitError
from opmkit.index.errors import DatabaseUnavailable, InvalidDatabase
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.sqlite import SCHEMA_VERSION, open_database, replace_database
from tests.index.builders import bundle
from tests.kit.shared import SHARED, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.sqlite import IndexDatabase


def add(path: Path, *versions: str, package: str = "demo") -> None:
    """Add bundles that each replace the previous one."""
    names = ["", *(f"{package}.v{version}" for version in versions)]
    with replace_database(path) as database:
        add_bundles(
            database,
            [bundle(version, package=package, replaces=name) for version, name in zip(versions, names, strict=False)],
        )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


@needs_shared
def test_schema_equals_that_of_operator_registry(path: Path) -> None:
    add(path, "1.0.0")
    recorded = json.loads((SHARED / "golden" / "schema.json").read_text())
    tool = [sys.executable, str(SHARED / "tools" / "dump_index.py"), str(path), "--storage"]
    dump = json.loads(subprocess.run(tool, check=True, capture_output=True).stdout)
    assert dump["schema"] == recorded["schema"]
    assert dump["schema_version"] == SCHEMA_VERSION
    storage = recorded["storage_classes_of_one_add"]
    assert {column: kinds for column, kinds in dump["storage"].items() if storage.get(column) != kinds} == {}


def test_triggers_delete_unused_apis(path: Path) -> None:
    """While one of the tables is empty, an API is deleted with the first row in the other."""
    with replace_database(path) as database:
        add_bundles(database, [bundle("1.0.0"), bundle("2.0.0", replaces="demo.v1.0.0")])
        execute = database.connection.execute
        execute("INSERT INTO api VALUES ('g', 'v1', 'K', 'ks'), ('g', 'v1', 'L', 'ls')")
        for version in ("1.0.0", "2.0.0"):
            key = (f"demo.v{version}", version, f"registry.example.com/demo:{version}")
            execute("INSERT INTO api_provider VALUES ('g', 'v1', 'K', ?, ?, ?)", key)
        execute("INSERT INTO api_requirer VALUES ('g', 'v1', 'L', ?, ?, ?)", key)
        execute("DELETE FROM api_provider WHERE operatorbundle_version = '1.0.0'")
        assert execute("SELECT kind FROM api ORDER BY kind").fetchall() == [("K",), ("L",)]
        execute("DELETE FROM api_requirer")
        assert execute("SELECT kind FROM api").fetchall() == [("K",)]
        execute("DELETE FROM api_provider")
        assert execute("SELECT kind FROM api").fetchall() == []


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    direct, indirect = tmp_path / "direct.db", tmp_path / "indirect.db"
    add(direct, "1.0.0", package="a")
    add(direct, "1.0.0", package="b")
    add(indirect, "1.0.0", package="b")
    with replace_database(indirect) as database:
        for statement in ("DELETE FROM operatorbundle", "DELETE FROM channel_entry", "DELETE FROM package"):
            database.connection.execute(statement)
    add(indirect, "0.5.0", package="b")
    with replace_database(indirect) as database:
        for statement in ("DELETE FROM operatorbundle", "DELETE FROM channel_entry", "DELETE FROM package"):
            database.connection.execute(statement)
        add_bundles(database, [bundle("1.0.0", package="b"), bundle("1.0.0", package="a")])
    assert indirect.read_bytes() == direct.read_bytes()


def test_rewrites_database_of_another_program_to_the_same_bytes(path: Path, tmp_path: Path) -> None:
    add(path, "1.0.0", "1.1.0")
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("PRAGMA page_size = 1024")
        with sqlite3.connect(path) as original:
            for statement in original.iterdump():
                if not statement.startswith('INSERT INTO "channel_entry"'):
                    connection.execute(statement.replace("\n", "  "))
            rows = original.execute(
                "SELECT entry_id + 70, channel_name, package_name, operatorbundle_name, replaces + 70, depth "
                "FROM channel_entry"
            )
            connection.executemany("INSERT INTO channel_entry VALUES (?, ?, ?, ?, ?, ?)", rows.fetchall()[::-1])
    connection.close()
    with replace_database(other):
        pass
    assert other.read_bytes() == path.read_bytes()


def test_source_date_epoch_sets_the_schema_timestamp(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    add(path, "1.0.0")
    with open_database(path) as database:
        rows = database.connection.execute("SELECT version, timestamp FROM schema_migrations").fetchall()
    assert rows == [(13, "1970-01-02 00:00:00")]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(OpmkitError, match="SOURCE_DATE_EPOCH: invalid time 'yesterday'"):
        add(path, "1.1.0")


def test_failed_change_creates_no_file(path: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), replace_database(path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_failed_change_leaves_the_file_unchanged(path: Path, tmp_path: Path) -> None:
    add(path, "1.0.0")
    before = path.read_bytes()
    with pytest.raises(DatabaseUnavailable, match=r"index\.db: FOREIGN KEY"), replace_database(path) as database:
        database.connection.execute("INSERT INTO channel VALUES ('x', 'y', 'z')")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.index.builders import bundle
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.sqlite import compaction, replace, replace_database

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

point = sys.argv[2]
if point == "compacting":
    replace.write_compact = lambda *args: (compaction.write_compact(*args), die())
elif point == "renaming":
    replace.sync_to_disk = die
with replace_database(Path(sys.argv[1])) as database:
    add_bundles(database, [bundle("2.0.0", replaces="demo.v1.0.0")])
    if point == "changing":
        die()
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["changing", "compacting", "renaming"])
def test_killed_process_leaves_the_old_file_and_temporary_files_are_removed(
    path: Path, tmp_path: Path, point: str
) -> None:
    add(path, "1.0.0")
    before = path.read_bytes()
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), point], env={"PYTHONPATH": ":".join(sys.path)})
    assert killed.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    temporary = {file.name for file in tmp_path.iterdir()} - {path.name}
    assert temporary
    assert temporary <= {".index.db.opmkit-work", ".index.db.opmkit-new"}
    with replace_database(path) as database:
        add_bundles(database, [bundle("2.0.0", replaces="demo.v1.0.0")])
    assert list(tmp_path.iterdir()) == [path]


def test_rejects_concurrent_changes(path: Path) -> None:
    with (
        replace_database(path),
        pytest.raises(DatabaseUnavailable, match="locked: another process is changing it"),
        replace_database(path),
    ):
        pass
    add(path, "1.0.0")


def test_permissions_and_symbolic_links_are_retained(path: Path, tmp_path: Path) -> None:
    add(path, "1.0.0")
    path.chmod(0o640)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    add(link, "1.0.0", package="other")
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    with open_database(path) as database:
        assert database.connection.execute("SELECT count(*) FROM package").fetchone() == (2,)


def test_empty_file_is_an_empty_database(path: Path) -> None:
    path.touch()
    add(path, "1.0.0")
    assert path.stat().st_size % 4096 == 0


def corrupt(path: Path, how: str) -> None:
    if how == "text":
        path.write_text("packages: []\n" * 100)
        return
    if how == "foreign":
        path.unlink()
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE notes (text)")
        connection.close()
        return
    if how in ("newer", "mislabelled"):
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE schema_migrations SET version = ?", (14 if how == "newer" else 9,))
        connection.close()
        return
    content = bytearray(path.read_bytes())
    if how == "damaged":
        content[4096:] = bytes(len(content) - 4096)
        content[100:4096] = b"\xff" * 3996
    path.write_bytes(content[:-4096] if how == "truncated" else content)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("text", "index.db: not a database"),
        ("foreign", "not an index database"),
        ("newer", "unsupported schema version 14: this release supports versions up to 13"),
        ("mislabelled", "not an index of its schema version 9: duplicate column"),
        ("truncated", "damaged database: truncated"),
        ("damaged", "damaged database"),
    ],
)
def test_rejects_invalid_files_and_leaves_them_unchanged(path: Path, tmp_path: Path, how: str, message: str) -> None:
    add(path, "1.0.0")
    corrupt(path, how)
    before = path.read_bytes()
    with pytest.raises(InvalidDatabase, match=message) as failure:
        add(path, "2.0.0")
    assert str(failure.value.hint)
    with pytest.raises(InvalidDatabase, match=message), open_database(path):
        pass
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_rejects_unfinished_changes_of_another_program(path: Path) -> None:
    add(path, "1.0.0")
    path.with_name("index.db-wal").write_bytes(b"pages")
    with pytest.raises(DatabaseUnavailable, match=r"unfinished changes of another program in index\.db-wal"):
        add(path, "2.0.0")


def test_missing_path(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="No such file"), open_database(tmp_path / "index.db"):
        pass
    with pytest.raises(DatabaseUnavailable, match="No such file"), replace_database(tmp_path / "none" / "index.db"):
        pass


def test_reading_writes_nothing(path: Path, tmp_path: Path) -> None:
    add(path, "1.0.0")
    with open_database(path) as database, pytest.raises(sqlite3.OperationalError, match="readonly"):
        database.connection.execute("DELETE FROM package")
    assert list(tmp_path.iterdir()) == [path]


def _overflow(database: IndexDatabase) -> None:
    database.connection.execute("PRAGMA max_page_count = 1")  # sqlite uses the current number of pages instead
    add_bundles(database, [bundle("2.0.0", replaces="demo.v1.0.0", image="x" * 90_000)])


def test_full_disk_leaves_the_old_file(path: Path) -> None:
    add(path, "1.0.0")
    before = path.read_bytes()
    with pytest.raises(DatabaseUnavailable, match="full"), replace_database(path) as database:
        _overflow(database)
    assert path.read_bytes() == before
