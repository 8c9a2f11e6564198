"""Translation of errors of SQLite and of files into errors that name the database."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opmkit.core import interrupts
from opmkit.index.errors import DatabaseUnavailable, InvalidDatabase
from opmkit.index.sqlite.connect import MAX_VALUE, REBUILD_HINT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
        InvalidDatabase: the database is damaged, or exceeds a limit.
        DatabaseUnavailable: another error of SQLite.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise damaged(path, "a text is not UTF-8") from error
    except sqlite3.DatabaseError as error:
        interrupts.check()  # a signal ends a query with the same error as the budget
        code = getattr(error, "sqlite_errorcode", 0)
        if code in _EXCEEDED:
            raise InvalidDatabase(f"{path}: refusing to read: {_EXCEEDED[code]}", hint=REBUILD_HINT) from error
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
