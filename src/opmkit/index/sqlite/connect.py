"""Connections to untrusted index databases: no code from the database is run, and values and work are limited."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import InvalidDatabase

if TYPE_CHECKING:
    from pathlib import Path

MAX_VALUE = 128 << 20
"""Maximum bytes of a text or blob. The manifests of a bundle are limited to half of it."""
MAX_STATEMENT = 1 << 20
"""Maximum bytes of an SQL statement, including those in the schema of the database."""
_STEP = 50_000
"""Virtual machine operations between checks of the budget and of signals: less than a millisecond."""
_BASE_OPERATIONS = 2_000_000_000
_OPERATIONS_PER_BYTE = 2_000
"""Work allowed on a database. Real indexes need less than a hundredth, as the tests verify."""

_TRIGGERS = frozenset({"api_provider_cleanup", "api_requirer_cleanup"})
"""Triggers of the schema. They are replaced before a change, so their content is irrelevant."""
_VIRTUAL = re.compile(r"\s*CREATE\s+VIRTUAL\b", re.IGNORECASE)
_EXPRESSION = -2
"""The column number of an expression in ``PRAGMA index_info``."""
REBUILD_HINT = "build the index again from its bundles"


@dataclass(slots=True)
class Budget:
    """The remaining virtual machine operations of a connection."""

    operations: int

    @classmethod
    def for_file(cls, path: Path) -> Budget:
        """Create the budget for a database file, proportional to its size."""
        return cls(_BASE_OPERATIONS + path.stat().st_size * _OPERATIONS_PER_BYTE)

    def spend(self) -> bool:
        """Subtract one step; return whether the budget is exceeded."""
        self.operations -= _STEP
        return self.operations < 0


def connect(uri: str, *, budget: Budget | None = None, check_same_thread: bool = True) -> sqlite3.Connection:
    """Open a connection on which content of the database cannot run for long or use much memory.

    Without a ``budget``, only signals interrupt queries.

    Raises:
        sqlite3.Error: the file cannot be opened or is not a database.
    """
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=check_same_thread)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, MAX_STATEMENT)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    # Python handles signals while it runs this callback, so a long query does not delay them.
    connection.set_progress_handler(budget.spend if budget else _continue, _STEP)
    return connection


def _continue() -> bool:
    return False


def check_objects(connection: sqlite3.Connection, path: Path) -> None:
    """Raise InvalidDatabase for views, other triggers, virtual tables, computed columns and indexes on expressions."""
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall():
        if description := _forbidden(connection, kind, name, sql):
            raise InvalidDatabase(
                f"{path}: refusing to open: {name!r} is {description}, which index databases do not contain",
                hint=REBUILD_HINT,
            )


def _forbidden(connection: sqlite3.Connection, kind: str, name: str, sql: str | None) -> str:
    """Describe an object that index databases do not contain, "" for an allowed one."""
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
    """Drop the triggers of the schema, whatever a foreign database defines under these names."""
    for name in _TRIGGERS:
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")
