"""Connections to index databases, which may come from anybody: no foreign code, bounded values and work."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import InvalidDatabase

if TYPE_CHECKING:
    from pathlib import Path

MAX_VALUE = 128 << 20
"""Bytes of a text or blob. The manifests of one bundle have at most half of it."""
MAX_STATEMENT = 1 << 20
"""Bytes of an SQL statement, those of the database's own schema among them."""
_STEP = 50_000
"""Virtual machine operations between two looks at the budget and at signals: less than a millisecond."""
_BASE_OPERATIONS = 2_000_000_000
_OPERATIONS_PER_BYTE = 2_000
"""The work allowed on a database; real indexes need less than a hundredth of it (see its tests)."""

_TRIGGERS = frozenset({"api_provider_cleanup", "api_requirer_cleanup"})
"""The triggers of the schema. They are replaced before anything is changed, so it does not matter what they do."""
_VIRTUAL = re.compile(r"\s*CREATE\s+VIRTUAL\b", re.IGNORECASE)
_EXPRESSION = -2
"""The column number of an expression in ``PRAGMA index_info``."""
_ADVICE = "Build the index again from its bundles."


@dataclass(slots=True)
class Budget:
    """The virtual machine operations that a connection may still execute."""

    operations: int

    @classmethod
    def for_file(cls, path: Path) -> Budget:
        """Return the budget for a database of this size."""
        return cls(_BASE_OPERATIONS + path.stat().st_size * _OPERATIONS_PER_BYTE)

    def spend(self) -> bool:
        """Spend one step and return whether the budget is exceeded."""
        self.operations -= _STEP
        return self.operations < 0


def connect(uri: str, *, budget: Budget | None = None, check_same_thread: bool = True) -> sqlite3.Connection:
    """Open a connection on which nothing that a foreign database brings along can run for long or take much memory.

    Without a ``budget`` queries are only interrupted by signals.

    Raises:
        sqlite3.Error: the file can't be opened, or is not a database.
    """
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=check_same_thread)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, MAX_STATEMENT)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    # Python handles signals while it runs this callback, so that a long query does not block them.
    connection.set_progress_handler(budget.spend if budget else _go_on, _STEP)
    return connection


def _go_on() -> bool:
    return False


def check_objects(connection: sqlite3.Connection, path: Path) -> None:
    """Raise InvalidDatabase for anything but tables and indexes: views, triggers, virtual tables, computed columns."""
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall():
        if found := _forbidden(connection, kind, name, sql):
            raise InvalidDatabase(
                f"{path}: refusing to open: {name!r} is {found}, which index databases do not contain", advice=_ADVICE
            )


def _forbidden(connection: sqlite3.Connection, kind: str, name: str, sql: str | None) -> str:
    """Return what an object is that no index database contains, "" for one that may be there."""
    if kind == "trigger" and name in _TRIGGERS:
        return ""
    if kind == "table":
        if _VIRTUAL.match(sql or ""):
            return "a virtual table"
        columns = connection.execute("SELECT hidden FROM pragma_table_xinfo(?)", (name,))
        return "a table with computed columns" if any(hidden for (hidden,) in columns) else ""
    if kind == "index":
        numbers = connection.execute("SELECT cid FROM pragma_index_info(?)", (name,))
        return "an index on an expression" if any(number == _EXPRESSION for (number,) in numbers) else ""
    return f"a {kind}"


def drop_triggers(connection: sqlite3.Connection) -> None:
    """Drop the triggers that the schema names, whatever a foreign database has under these names."""
    for name in _TRIGGERS:
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")
