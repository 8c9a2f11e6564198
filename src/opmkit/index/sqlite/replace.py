"""Atomic replacement of index databases by changed copies."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from opmkit.core.files import check_output, sync_to_disk
from opmkit.index.errors import DatabaseUnavailable
from opmkit.index.sqlite.compaction import write_compact
from opmkit.index.sqlite.connect import file_errors, sqlite_errors
from opmkit.index.sqlite.database import (
    IndexDatabase,
    check_file,
    check_schema,
    connect_to,
    migrate_copy,
    schema_timestamp,
)
from opmkit.index.sqlite.schema import create_schema, create_work_indexes, has_tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def replace_database(path: Path, *, must_exist: bool = False, durable: bool = True) -> Iterator[IndexDatabase]:
    """Change or create an index database: yield a copy that replaces the file when the body ends.

    If the body raises, the file is unchanged, or is not created. A killed process leaves at most the files
    ``.NAME.opmkit-work`` and ``.NAME.opmkit-new`` in the same directory, which the next change removes.

    The new file has the current schema and is compact. Its bytes depend only on its content and ``SOURCE_DATE_EPOCH``.

    Args:
        path: The database; a missing or empty file is an empty database.
        must_exist: Raise DatabaseUnavailable for a missing file.
        durable: Sync the new file to disk before it replaces the old one.

    Raises:
        InvalidDatabase: The file is not an index database, is damaged, or has a newer schema.
        DatabaseUnavailable: Another process is changing the file, or it cannot be read or written.
    """
    check_output(path)
    target = path.resolve()
    work = target.with_name(f".{target.name}.opmkit-work")
    new = target.with_name(f".{target.name}.opmkit-new")
    with sqlite_errors(path), _locked(work, path):
        try:
            with file_errors(path):
                new.unlink(missing_ok=True)
                if must_exist:
                    target.stat()
                _copy_to_work_file(target, work)
            migrate_copy(work, new, path)
            with closing(connect_to(work, path)) as connection:
                _prepare(connection, path)
                connection.execute("BEGIN IMMEDIATE")
                yield IndexDatabase(connection, path)
                connection.execute("COMMIT")
            write_compact(work, new, schema_timestamp())
            with file_errors(path):
                _replace_file(new, target, durable=durable)
        finally:
            new.unlink(missing_ok=True)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Set up the work copy for fast changes; it need not survive a crash."""
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = MEMORY")
    if not has_tables(connection):
        create_schema(connection, schema_timestamp())
    check_schema(connection, path)
    create_work_indexes(connection)


@contextmanager
def _locked(work: Path, path: Path) -> Iterator[None]:
    """Create the empty work file with an exclusive lock; remove it afterwards."""
    with file_errors(path):
        descriptor = os.open(work, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _lock(descriptor, work):
            raise DatabaseUnavailable(
                f"{path}: locked: another process is changing it", hint="try again when the other command has ended"
            )
        try:
            os.truncate(descriptor, 0)
            yield
        finally:
            work.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, work: Path) -> bool:
    """Lock the open file; return False if it is locked, or was removed by the previous holder of the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), work.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _copy_to_work_file(target: Path, work: Path) -> None:
    """Copy an existing database that is not empty."""
    if not target.exists() or target.stat().st_size == 0:
        return
    check_file(target)
    for suffix in ("-journal", "-wal"):
        pending = target.with_name(target.name + suffix)
        if pending.exists() and pending.stat().st_size:
            raise DatabaseUnavailable(
                f"{target}: unfinished changes of another program in {pending.name}",
                hint="wait for the other program, or open the database once with sqlite3 to finish or undo the changes",
            )
    shutil.copyfile(target, work)


def _replace_file(new: Path, target: Path, *, durable: bool) -> None:
    """Move the new file over the old one, with the permissions of the old one."""
    if target.exists():
        shutil.copymode(target, new)
    if durable:
        sync_to_disk(new)
    try:
        new.replace(target)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _overwrite(target, new)  # a file that is mounted into a container cannot be replaced
        return
    if durable:
        sync_to_disk(target.parent)


def _overwrite(target: Path, new: Path) -> None:
    """Copy the new database to the old one in a transaction, which its journal undoes if the process is killed."""
    with closing(sqlite3.connect(new)) as source, closing(sqlite3.connect(target)) as destination:
        source.backup(destination)
