"""Opening index databases: to read, or to replace one by a changed copy, all or nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools import interrupts
from opmkit.imagetools.epoch import source_date_epoch
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.index.errors import DatabaseUnavailable, InvalidDatabase
from opmkit.index.sqlite.compaction import write_compact
from opmkit.index.sqlite.connect import MAX_VALUE, Budget, check_objects, connect, drop_triggers
from opmkit.index.sqlite.schema import SCHEMA_VERSION, create_schema, create_work_indexes, has_tables, schema_version

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"SQLite format 3\0"
_DAMAGED = "Copy it again from where it came from."
_REBUILD = "Build the index again from its bundles."
_EXCEEDED = {
    sqlite3.SQLITE_INTERRUPT: "a query takes far longer than an index of this size requires",
    sqlite3.SQLITE_TOOBIG: f"a value is larger than {MAX_VALUE >> 20} MiB",
}
_FILE_ADVICE = {
    errno.ENOENT: "Check the path of the database.",
    errno.EISDIR: "Give the path of a database file.",
    errno.EACCES: "Choose a path that you may read and write.",
    errno.EPERM: "Choose a path that you may read and write.",
    errno.EROFS: "Choose a path on a disk that is not read-only.",
    errno.ENOSPC: "Free some space on the disk of the database.",
}


@dataclass(frozen=True, slots=True)
class IndexDatabase:
    """An open index database, with foreign keys enforced."""

    connection: sqlite3.Connection
    path: Path

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A step that leaves no trace if it ends in an error. Steps can be nested."""
        self.connection.execute("SAVEPOINT step")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):  # a full disk has undone everything already
                self.connection.execute("ROLLBACK TO step")
                self.connection.execute("RELEASE step")
            raise
        self.connection.execute("RELEASE step")


@contextmanager
def open_database(path: Path) -> Iterator[IndexDatabase]:
    """Open an index database for reading; the file is not written to.

    Raises:
        InvalidDatabase: no index database, a damaged one, or a schema that is too new.
        DatabaseUnavailable: no such file, or it can't be read.
    """
    with current_database(path) as current, closing(_connect_to_read(current, path)) as connection:
        yield IndexDatabase(connection, path)


@contextmanager
def current_database(path: Path, *, migrate: bool = True) -> Iterator[Path]:
    """A file with the content of an index database in the newest schema: itself, or a private copy where it is older.

    Without ``migrate`` it is the file itself, whatever its schema is, and even if it is empty. Errors of SQLite in the
    body name the database.

    Raises:
        InvalidDatabase: no index database, a damaged one, or a schema that is too new.
        DatabaseUnavailable: no such file, or it can't be read.
    """
    with _files_explained(path):
        if migrate or path.stat().st_size:
            _check_file(path)
    with _sqlite_explained(path), _current(path) if migrate else nullcontext(path) as current:
        if migrate:
            with closing(_connect_to_read(current, path)) as connection:
                _check_schema(connection, path)
        yield current


@contextmanager
def replace_database(path: Path, *, must_exist: bool = False, durable: bool = True) -> Iterator[IndexDatabase]:
    """Change an index database, or make a new one: the body works on a copy that takes the file's place at its end.

    With ``must_exist`` a missing file is an error, as it is for those who only take away.

    If the body ends in an error, the file stays as it was, or does not come to be. If the process dies, it leaves at
    most two files beside it, named ``.NAME.opmkit-work`` and ``.NAME.opmkit-new``, which the next change removes.
    One that is not ``durable`` may be lost by a power cut: it does for a file that is thrown away anyhow.
    The new file is compact, and its bytes depend on its content alone (and on ``SOURCE_DATE_EPOCH``). It has the
    newest schema.

    Raises:
        InvalidDatabase: no index database, a damaged one, or a schema that is too new.
        DatabaseUnavailable: another process is changing it, or the file can't be read or written.
    """
    target = path.resolve()
    work = target.with_name(f".{target.name}.opmkit-work")
    fresh = target.with_name(f".{target.name}.opmkit-new")
    with _sqlite_explained(path), _locked(work, path):
        try:
            with _files_explained(path):
                fresh.unlink(missing_ok=True)
                if must_exist:
                    target.stat()
                _fill_work_copy(target, work)
            _bring_up_to_date(work, fresh, path)
            with closing(_connect(work, path)) as connection:
                _prepare(connection, path)
                connection.execute("BEGIN IMMEDIATE")
                yield IndexDatabase(connection, path)
                connection.execute("COMMIT")
            write_compact(work, fresh, _timestamp())
            with _files_explained(path):
                _put_in_place(fresh, target, durable=durable)
        finally:
            fresh.unlink(missing_ok=True)


def _connect(path: Path, named: Path, query: str = "") -> sqlite3.Connection:
    """Open the database at ``path``, which errors call ``named``; raises InvalidDatabase and sqlite3.Error."""
    connection = connect(f"{path.absolute().as_uri()}{query}", budget=Budget.for_file(path))
    try:
        check_objects(connection, named)
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_to_read(path: Path, named: Path) -> sqlite3.Connection:
    return _connect(path, named, "?mode=ro&immutable=1")


@contextmanager
def _current(path: Path) -> Iterator[Path]:
    """A file with the content of a database in the newest schema: itself or, where its own is older, a copy."""
    with closing(_connect_to_read(path, path)) as connection:
        version = schema_version(connection)
    if version is None or version >= SCHEMA_VERSION:
        yield path
        return
    with ScratchDirectory("opm-index-") as scratch:
        copy = Path(scratch, "index.db")
        with _files_explained(path):
            shutil.copyfile(path, copy)
        _bring_up_to_date(copy, Path(scratch, "new.db"), path)
        yield copy


def _bring_up_to_date(copy: Path, fresh: Path, path: Path) -> None:
    """Give a private copy of the database at ``path`` the newest schema; ``fresh`` names a file to use meanwhile."""
    with closing(_connect(copy, path)) as connection:
        version = schema_version(connection)
        if version is None or version >= SCHEMA_VERSION:
            return
        from opmkit.index.sqlite.migrations import migrate  # reads manifests, which current databases don't need

        with _schema_explained(path, version):
            drop_triggers(connection)
            migrate(connection, version)
    with _schema_explained(path, version):
        write_compact(copy, fresh, _timestamp())
    with _files_explained(path):
        shutil.copyfile(fresh, copy)
        fresh.unlink()


@contextmanager
def _schema_explained(path: Path, version: int) -> Iterator[None]:
    """Let what a database of an older schema lacks be its fault."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise InvalidDatabase(
            f"{path} is not what an index of its schema {version} is: {error}",
            advice="Build the index again from its bundles.",
        ) from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the work copy ready: it is thrown away if anything goes wrong, so nothing of it has to be safe on disk."""
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = MEMORY")
    if not has_tables(connection):
        create_schema(connection, _timestamp())
    _check_schema(connection, path)
    create_work_indexes(connection)


@contextmanager
def _locked(work: Path, path: Path) -> Iterator[None]:
    """Hold the work file, empty, for this process alone; remove it in the end."""
    with _files_explained(path):
        descriptor = os.open(work, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _lock(descriptor, work):
            raise DatabaseUnavailable(
                f"{path} is being changed by another process", advice="Try again when the other command has ended."
            )
        try:
            os.truncate(descriptor, 0)
            yield
        finally:
            work.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, work: Path) -> bool:
    """Whether the open file was locked and is still the one of that name: its last holder has removed it in the end."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), work.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _fill_work_copy(target: Path, work: Path) -> None:
    """Copy the database there is; a missing or empty file is an empty database."""
    if not target.exists() or target.stat().st_size == 0:
        return
    _check_file(target)
    for suffix in ("-journal", "-wal"):
        pending = target.with_name(target.name + suffix)
        if pending.exists() and pending.stat().st_size:
            raise DatabaseUnavailable(
                f"{target} has unfinished changes in {pending.name}",
                advice="Another program is writing to it, or was stopped: open it once with sqlite3 to finish or undo.",
            )
    shutil.copyfile(target, work)


def _put_in_place(fresh: Path, target: Path, *, durable: bool) -> None:
    """Let the new file take the old one's place and permissions, once it is safe on disk."""
    if target.exists():
        shutil.copymode(target, fresh)
    if durable:
        _sync(fresh)
    fresh.replace(target)
    if durable:
        _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_file(path: Path) -> None:
    """See by the header whether the file is a whole SQLite database."""
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise InvalidDatabase(f"{path} is not a database", hint="pass the file of an index database")
    page_size = int.from_bytes(header[16:18], "big")
    expected = (65536 if page_size == 1 else page_size) * int.from_bytes(header[28:32], "big")
    if path.stat().st_size < expected:
        raise InvalidDatabase(
            f"{path} is truncated: {path.stat().st_size} bytes of {expected} are there",
            advice="Copy it again from where it came from.",
        )


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    version = schema_version(connection)
    if version is None:
        raise InvalidDatabase(
            f"{path} is a database, but not of an operator index",
            hint="pass the file of an index database",
        )
    if version > SCHEMA_VERSION:
        raise InvalidDatabase(
            f"{path} has the index schema {version}; this program knows up to {SCHEMA_VERSION}",
            advice="Use a newer release of opmkit.",
        )


def _timestamp() -> str:
    """The time that dates the schema, as SQLite writes it."""
    return datetime.fromtimestamp(source_date_epoch(), UTC).strftime("%Y-%m-%d %H:%M:%S")


@contextmanager
def _sqlite_explained(path: Path) -> Iterator[None]:
    """Let the errors of SQLite name the database, and tell damage from trouble with the disk."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidDatabase(f"{path} is damaged: a text is not UTF-8", advice=_DAMAGED) from error
    except sqlite3.DatabaseError as error:
        interrupts.check()  # a signal ends a query as the budget does
        if getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_TOOBIG):
            raise InvalidDatabase(
                f"{path}: refusing to read: {_EXCEEDED[error.sqlite_errorcode]}", advice=_REBUILD
            ) from error
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise InvalidDatabase(f"{path} is damaged: {error}", advice=_DAMAGED) from error
        raise DatabaseUnavailable(f"{path}: {error}", advice="Check the free space and permissions there.") from error


@contextmanager
def _files_explained(path: Path) -> Iterator[None]:
    """Let the errors of the file system name the database."""
    try:
        yield
    except OSError as error:
        cause = error.strerror or str(error)
        raise DatabaseUnavailable(f"{path}: {cause}", advice=_FILE_ADVICE.get(error.errno or 0, "")) from error
