"""Databases with values of another type than their column has: each command works, or names the column."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from opmkit.index.sqlite.schema import COLUMN_TYPES
from tests.kit.opm import LAGOON, Opm, run

if TYPE_CHECKING:
    from pathlib import Path

VALUES = {
    "text": "'x'",
    "real": "1.5",
    "blob": "x'ff00'",
    "null": "NULL",
    "not UTF-8": "CAST(x'ff' AS TEXT)",
    "JSON": """'{"packageName": 7, "version": 7, "versionRange": 7, "group": 7}'""",
    "list": "'[1]'",
}
COMMANDS = (
    "render index.db",
    "alpha list channels index.db",
    "registry rm -d index.db -o lagoon-operator",
    "registry add -d index.db -b ./next",
    "registry deprecatetruncate -d index.db -b quay.io/me/lagoon:2",
    "index images index.db",
    "index diff index.db sound.db",
    "index merge index.db sound.db --output-dir merged",
)


@pytest.fixture
def sound(opm: Opm, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a database with rows in all tables, two bundles and an edge."""
    monkeypatch.chdir(opm.directory)
    shutil.copytree(LAGOON / "0.1.0", "first")
    shutil.copytree("first", "next")
    (csv,) = (opm.directory / "next/manifests").glob("*.clusterserviceversion.yaml")
    csv.write_text(
        csv.read_text().replace("0.1.0", "0.2.0").replace("\nspec:", "\nspec:\n  replaces: lagoon-operator.v0.1.0")
    )
    opm.here("registry", "add", "-d", "sound.db", "-b", "./first")
    opm.here("registry", "add", "-d", "sound.db", "-b", "./next")
    csv.write_text(csv.read_text().replace("0.1.0", "last").replace("0.2.0", "0.3.0").replace("last", "0.2.0"))
    with closing(sqlite3.connect("sound.db")) as connection:
        connection.executescript("""
            UPDATE operatorbundle SET bundlepath = 'quay.io/me/lagoon:2' WHERE version = '0.2.0';
            INSERT INTO related_image VALUES ('quay.io/me/x:1', 'lagoon-operator.v0.1.0');
            INSERT INTO deprecated VALUES ('lagoon-operator.v0.1.0');
            INSERT INTO properties SELECT 'olm.package.required', '{"packageName": "a", "versionRange": "1"}',
                name, version, bundlepath FROM operatorbundle;
            INSERT INTO dependencies SELECT 'olm.package', '{"packageName": "a", "version": "1"}',
                name, version, bundlepath FROM operatorbundle;
            INSERT INTO api_requirer SELECT * FROM api_provider;
        """)
    return opm.directory / "sound.db"


def mutate(database: Path, table: str, column: str, value: str) -> bool:
    """Set a column of all rows, or else of one; return whether the schema allows that."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        for condition in ("", f" WHERE rowid = (SELECT min(rowid) FROM {table})"):
            try:
                connection.execute(f"UPDATE {table} SET {column} = {value}{condition}")
                connection.commit()
            except sqlite3.Error:
                continue
            return True
    return False


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("table", COLUMN_TYPES)
def test_every_command_reports_every_wrong_type(table: str, sound: Path, capfd: pytest.CaptureFixture[str]) -> None:
    database = sound.with_name("mutated.db")
    for column in COLUMN_TYPES[table]:
        for value in VALUES.values():
            shutil.copy(sound, database)
            if not mutate(database, table, column, value):
                continue
            for command in COMMANDS:
                shutil.copy(database, "index.db")
                status = run(command.split())
                output, errors = capfd.readouterr()
                assert status in (0, 1, 2, 3)
                assert "internal error" not in output + errors, (column, value, command)
                assert "unknown flag" not in errors, command
                shutil.rmtree("merged", ignore_errors=True)


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("channel_entry.depth", "'x'", "text instead of integer"),
        ("channel_entry.replaces", "1.5", "real instead of integer"),
        ("operatorbundle.name", "x'00'", "blob instead of text"),
        ("operatorbundle.skiprange", "x'00'", "blob instead of text"),
        ("package.name", "NULL", "null instead of text"),
    ],
)
@pytest.mark.parametrize("command", ["render index.db", "registry rm -d index.db -o lagoon-operator"])
def test_column_is_named(opm: Opm, sound: Path, column: str, value: str, problem: str, command: str) -> None:
    shutil.copy(sound, "index.db")
    table, _, name = column.partition(".")
    assert mutate(sound.with_name("index.db"), table, name, value)
    done = opm.attempt(*command.split())
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: index.db: damaged database: {column}: {problem}\n  hint: build the index again from its bundles\n"
    )


def test_blobs_are_texts_where_go_writes_them(opm: Opm, sound: Path) -> None:
    shutil.copy(sound, "index.db")
    with closing(sqlite3.connect("index.db")) as connection:
        connection.executescript("""
            UPDATE properties SET value = CAST(value AS BLOB);
            UPDATE dependencies SET value = CAST(value AS BLOB);
            UPDATE operatorbundle SET csv = CAST(csv AS BLOB), bundle = CAST(bundle AS BLOB);
        """)
    assert opm.here("render", "index.db") == opm.here("render", str(sound))
