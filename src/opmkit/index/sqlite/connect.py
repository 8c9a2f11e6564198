"""Connections to untrusted index databases: no code from them is run, work is limited, errors name the database."""

from __future__ import annotations

import errno
import re
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core import interrupts
from opmkit.index.errors import DatabaseUnavailable, InvalidDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator
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


class Budget(Struct):
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
        sqlite3.Error: The file cannot be opened or is not a database.
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
    """Describe an object that index databases do not contain, or "" for an allowed one."""
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
    """Drop the triggers of the schema, even if a foreign database defines them differently."""
    for name in _TRIGGERS:
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")


_INVALID_BYTE = re.compile("[\udc80-\udcff]")
"""What the decoder leaves of bytes that are not UTF-8."""


class TextDecoder:
    """A decoder of texts that replaces each byte that is not UTF-8 by U+FFFD, as Go does. For reading only.

    Attributes:
        has_replaced: Whether a text was not UTF-8.
    """

    has_replaced = False

    def __call__(self, data: bytes) -> str:
        """Decode a text."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.has_replaced = True
            return _INVALID_BYTE.sub("\ufffd", data.decode(errors="surrogateescape"))


NOT_UTF8 = "a text is not UTF-8"
_UNDECODABLE = "Could not decode to UTF-8"
"""The start of the message of the sqlite3 module for a text that is not UTF-8, which is no error of SQLite."""
_COPY_HINT = "copy the file again from its source"
_EXCEEDED = {
    sqlite3.SQLITE_INTERRUPT: "a query takes far longer than an index of this size requires",
    sqlite3.SQLITE_TOOBIG: f"a value is larger than {MAX_VALUE >> 20} MiB",
}
_FILE_HINTS = {
    errno.ENOENT: "check the path of the database",
    errno.EISDIR: "pass the path of a database file",
    errno.EACCES: "choose a path that you can read and write",
    errno.EPERM: "choose a path that you can read and write",
    errno.EROFS: "choose a path on a writable disk",
    errno.ENOSPC: "free space on the disk of the database",
}


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Translate errors of SQLite; distinguish damage and exceeded limits from problems with the disk.

    Raises:
        InvalidDatabase: The database is damaged, or exceeds a limit.
        DatabaseUnavailable: Another error of SQLite.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise damaged(path, NOT_UTF8) from error
    except sqlite3.DatabaseError as error:
        interrupts.check()  # a signal ends a query with the same error as the budget
        code = getattr(error, "sqlite_errorcode", 0)
        if code in _EXCEEDED:
            raise InvalidDatabase(f"{path}: refusing to read: {_EXCEEDED[code]}", hint=REBUILD_HINT) from error
        if str(error).startswith(_UNDECODABLE):
            raise damaged(path, NOT_UTF8) from error
        if code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise damaged(path, str(error)) from error
        raise DatabaseUnavailable(f"{path}: {error}", hint="check the free space and permissions") from error


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Translate OSError into DatabaseUnavailable."""
    try:
        yield
    except OSError as error:
        cause = error.strerror or str(error)
        raise DatabaseUnavailable(f"{path}: {cause}", hint=_FILE_HINTS.get(error.errno or 0, "")) from error


@contextmanager
def schema_errors(path: Path, version: int) -> Iterator[None]:
    """Translate errors of a database that lacks tables or columns of its schema version into InvalidDatabase."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise InvalidDatabase(
            f"{path}: not an index of its schema version {version}: {error}", hint=REBUILD_HINT
        ) from error


def damaged(path: Path, cause: str, *, hint: str = _COPY_HINT) -> InvalidDatabase:
    """Return the error for a damaged database."""
    return InvalidDatabase(f"{path}: damaged database: {cause}", hint=hint)
