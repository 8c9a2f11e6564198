"""Tests of malicious and damaged index databases: each causes an error that names the file."""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from opmkit.index.errors import InvalidDatabase
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.options import AddOptions
from opmkit.index.operations.add.sqlite import add_bundles
from opmkit.index.sqlite import connect, open_database, replace_database
from opmkit.index.sqlite.serving import served_database
from tests.index.builders import bundle
from tests.kit.opm import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.opm import Opm

ENDLESS = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS name, 'a' AS default_channel FROM n"
)
LARGE = "SELECT hex(randomblob(100000000)) AS name, 'a' AS default_channel FROM channel_entry"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a valid index database with three bundles."""
    path = tmp_path / "index.db"
    with replace_database(path) as database:
        add_bundles(database, [bundle("1.0.0"), bundle("2.0.0", replaces="demo.v1.0.0"), bundle("1.0.0", package="x")])
    return path


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


HOSTILE = {
    "endless view": (["DROP TABLE package", f"CREATE VIEW package AS {ENDLESS}"], "'package' is a view"),
    "large view": (["DROP TABLE package", f"CREATE VIEW package AS {LARGE}"], "'package' is a view"),
    "trigger": (
        ["CREATE TRIGGER evil AFTER DELETE ON channel BEGIN DELETE FROM operatorbundle; END"],
        "'evil' is a trigger",
    ),
    "virtual table": (["CREATE VIRTUAL TABLE notes USING fts5(text)"], "'notes' is a virtual table"),
    "computed column": (
        ["DROP TABLE deprecated", "CREATE TABLE deprecated (operatorbundle_name AS (hex(zeroblob(9))), x)"],
        "'deprecated' is a table with computed columns",
    ),
    "index on an expression": (
        ["CREATE INDEX slow ON package (length(printf('%.*c', 1000, 'x')))"],
        "'slow' is an index on an expression",
    ),
}


@pytest.mark.parametrize(("statements", "description"), HOSTILE.values(), ids=HOSTILE)
def test_rejects_objects_that_indexes_do_not_contain(path: Path, statements: list[str], description: str) -> None:
    change(path, *statements)
    before = path.read_bytes()
    with pytest.raises(InvalidDatabase, match=f"index.db: refusing to open: {description}"), open_database(path):
        pass
    with pytest.raises(InvalidDatabase, match=f"index.db: refusing to open: {description}"), replace_database(path):
        pass
    for migrate in (True, False):
        with pytest.raises(InvalidDatabase, match=description), served_database(path, migrate=migrate):
            pass
    assert path.read_bytes() == before


def test_replaces_foreign_triggers_with_names_of_the_schema(path: Path) -> None:
    for table in ("api_provider", "api_requirer"):
        change(
            path,
            f"DROP TRIGGER {table}_cleanup",
            f"CREATE TRIGGER {table}_cleanup AFTER INSERT ON package BEGIN DELETE FROM operatorbundle; END",
        )
    with replace_database(path) as database:
        add_bundles(database, [bundle("1.0.0", package="other")])
    with open_database(path) as database:
        assert database.connection.execute("SELECT count(*) FROM operatorbundle").fetchone() == (4,)
        triggers = database.connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    assert len(triggers) == 2
    assert not [sql for (sql,) in triggers if "operatorbundle;" in sql]


def test_rejects_values_over_the_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(path, "UPDATE operatorbundle SET csv = printf('%.*c', 100000, 'x') WHERE version = '2.0.0'")
    monkeypatch.setattr(connect, "MAX_VALUE", 50_000)
    with pytest.raises(InvalidDatabase, match="a value is larger than"), open_database(path) as database:
        database.connection.execute("SELECT csv FROM operatorbundle").fetchall()


@pytest.mark.slow
def test_rejects_queries_over_the_budget(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_BASE_OPERATIONS", 0)
    with pytest.raises(InvalidDatabase, match="a query takes far longer"), open_database(path) as database:
        database.connection.execute(f"SELECT count(*) FROM ({ENDLESS})").fetchall()


QUERY = """
import sys
from pathlib import Path
from opmkit.core import interrupts
interrupts.install()
from opmkit.index.sqlite import connect, open_database
connect._BASE_OPERATIONS = 10**15
interrupts.begin_command()
try:
    with open_database(Path(sys.argv[1])) as database:
        print("open", flush=True)
        database.connection.execute(f"SELECT count(*) FROM ({sys.argv[2]})").fetchall()
except interrupts.Interrupted:
    print("unwound")
"""


def test_signal_interrupts_a_long_query(path: Path) -> None:
    argv = [sys.executable, "-c", QUERY, str(path), ENDLESS]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "open\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "unwound\n"


def test_real_change_uses_less_than_a_hundredth_of_the_budget(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[tuple[connect.Budget, int]] = []
    monkeypatch.setattr(connect, "_STEP", 1000)

    def for_file(cls: type[connect.Budget], path: Path) -> connect.Budget:
        budget = cls(connect._BASE_OPERATIONS + path.stat().st_size * connect._OPERATIONS_PER_BYTE)
        budgets.append((budget, budget.operations))
        return budget

    monkeypatch.setattr(connect.Budget, "for_file", classmethod(for_file))
    with replace_database(path) as database:
        add_bundles(
            database, [bundle(f"{number}.0.0", package="many") for number in range(300)], AddOptions(UpdateMode.SEMVER)
        )
    assert all(whole - budget.operations < whole / 100 for budget, whole in budgets)


COMMANDS: list[Callable[[str], list[str]]] = [
    lambda db: ["registry", "add", "-d", db, "-b", ""],
    lambda db: ["registry", "rm", "-d", db, "-o", "demo"],
    lambda db: ["registry", "prune", "-d", db, "-p", "demo", "--permissive"],
    lambda db: ["registry", "prune-stranded", "-d", db],
    lambda db: ["registry", "deprecatetruncate", "-d", db, "-b", "registry.example.com/demo:2.0.0"],
    lambda db: ["render", db],
    lambda db: ["migrate", db, f"{db}.catalog"],
    lambda db: ["validate", db],
    lambda db: ["alpha", "list", "packages", db],
    lambda db: ["alpha", "list", "channels", db],
    lambda db: ["alpha", "list", "bundles", db],
    lambda db: ["alpha", "render-graph", db],
    lambda db: ["index", "graph", db, "-o", "dot"],
    lambda db: ["index", "diff", db, db],
    lambda db: ["index", "manifests", db, "demo", "--image", "x.example.com/c:1"],
    lambda db: ["index", "rm", "-f", db, "-o", "demo", "--to-fbc", "--dry-run"],
]
ROUNDS = 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_damage_causes_no_traceback(path: Path, seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Flip bytes, clear pages and truncate the file, 1000 times multiplied by OPMKIT_FUZZ."""
    rng = random.Random(seed)
    whole = path.read_bytes()
    damaged = path.with_name("damaged.db")
    for number in range(1000 // ROUNDS * int(os.environ.get("OPMKIT_FUZZ", "1"))):
        damaged.write_bytes(damage(whole, rng))
        argv = COMMANDS[rng.randrange(len(COMMANDS))](str(damaged))
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), write_through=True)):
            status = run(argv)
        assert status in (0, 1, 2, 3), (seed, number, argv)
    assert "Traceback" not in capfd.readouterr().err


def damage(whole: bytes, rng: random.Random) -> bytes:
    content = bytearray(whole)
    for _ in range(rng.choice((1, 1, 4, 20))):
        offset = rng.randrange(rng.choice((200, len(content))))
        match rng.randrange(5):
            case 0:
                content[offset] = rng.randrange(256)
            case 1:
                content[offset] ^= 1 << rng.randrange(8)
            case 2:
                content[offset : offset + 8] = rng.randbytes(len(content[offset : offset + 8]))
            case 3:
                page = offset // 4096 * 4096
                content[page : page + 4096] = rng.choice((bytes(4096), rng.randbytes(4096)))
            case _:
                other = rng.randrange(len(content))
                content[offset : offset + 64] = content[other : other + len(content[offset : offset + 64])]
    return bytes(content[: rng.randrange(len(content))] if rng.random() < 0.05 else content)


def test_text_that_is_not_utf8(path: Path, opm: Opm) -> None:
    """What the text is not needed for is read as by Go; other commands say that the file is damaged."""
    change(path, "UPDATE operatorbundle SET bundlepath = CAST(x'712ffffe2f61' AS TEXT) WHERE version = '2.0.0'")
    assert '"image": "q/\ufffd\ufffd/a"' in opm("render", str(path))
    change(path, "UPDATE package SET default_channel = CAST(x'ff' AS TEXT)")
    for arguments in (["render", str(path)], ["registry", "rm", "-d", str(path), "-o", "demo"]):
        done = opm.attempt(*arguments)
        assert done.returncode == 1
        assert "damaged database: a text is not UTF-8\n  hint: copy the file again from its source" in done.stderr
