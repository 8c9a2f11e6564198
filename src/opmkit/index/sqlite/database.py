"""Opening index databases for reading."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.environment import source_date_epoch
from opmkit.core.scratch import ScratchDirectory
from opmkit.index.errors import InvalidCatalog, InvalidDatabase
from opmkit.index.sqlite.compaction import write_compact
from opmkit.index.sqlite.connect import (
    NOT_UTF8,
    REBUILD_HINT,
    Budget,
    TextDecoder,
    check_objects,
    connect,
    damaged,
    drop_triggers,
    file_errors,
    schema_errors,
    sqlite_errors,
)
from opmkit.index.sqlite.schema import COLUMN_TYPES, SCHEMA_VERSION, schema_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MAGIC = b"SQLite format 3\0"
_HEADER_SIZE = 100
_INDEX_HINT = "pass the file of an index database, or the directory of a file-based catalog"


class IndexDatabase(Struct, frozen=True):
    """An open index database with enforced foreign keys."""

    connection: sqlite3.Connection
    path: Path

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Roll back the changes of the body if it raises. Transactions can be nested."""
        self.connection.execute("SAVEPOINT step")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite rolls back by itself if the disk is full
                self.connection.execute("ROLLBACK TO step")
                self.connection.execute("RELEASE step")
            raise
        self.connection.execute("RELEASE step")


@contextmanager
def open_database(path: Path) -> Iterator[IndexDatabase]:
    """Open an index database for reading, migrated to the current schema in a private copy if necessary.

    Raises:
        InvalidDatabase: The file is not an index database, is damaged, or has a newer schema.
        DatabaseUnavailable: The file does not exist or cannot be read.
    """
    with current_database(path) as current, closing(_connect_to_read(current, path)) as connection:
        connection.text_factory = decoder = TextDecoder()
        try:
            yield IndexDatabase(connection, path)
        except InvalidCatalog as error:
            if decoder.has_replaced:
                raise damaged(path, NOT_UTF8) from error
            raise


@contextmanager
def current_database(path: Path, *, migrate: bool = True) -> Iterator[Path]:
    """Yield a file with the content of an index database in the current schema: itself or a migrated copy.

    Without ``migrate`` yield ``path``, whatever its schema, even if the file is empty. SQLite errors in the body are
    translated.

    Raises:
        InvalidDatabase: The file is not an index database, is damaged, or has a newer schema.
        DatabaseUnavailable: The file does not exist or cannot be read.
    """
    with file_errors(path):
        if migrate or path.stat().st_size:
            check_file(path)
    with sqlite_errors(path), _migrated(path) if migrate else nullcontext(path) as current:
        if migrate:
            with closing(_connect_to_read(current, path)) as connection:
                check_schema(connection, path)
        yield current


def connect_to(path: Path, named: Path, query: str = "") -> sqlite3.Connection:
    """Connect to the database at ``path``, which errors call ``named``.

    Raises:
        InvalidDatabase: The database contains forbidden objects.
        sqlite3.Error: The database cannot be opened.
    """
    connection = connect(f"{path.absolute().as_uri()}{query}", budget=Budget.for_file(path))
    try:
        check_objects(connection, named)
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_to_read(path: Path, named: Path) -> sqlite3.Connection:
    return connect_to(path, named, "?mode=ro&immutable=1")


@contextmanager
def _migrated(path: Path) -> Iterator[Path]:
    """Yield the database if its schema is current, else a migrated copy."""
    with closing(_connect_to_read(path, path)) as connection:
        version = schema_version(connection)
    if version is None or version >= SCHEMA_VERSION:
        yield path
        return
    with ScratchDirectory("opm-index-") as scratch:
        copy = Path(scratch, "index.db")
        with file_errors(path):
            shutil.copyfile(path, copy)
        migrate_copy(copy, Path(scratch, "new.db"), path)
        yield copy


def migrate_copy(copy: Path, temporary: Path, path: Path) -> None:
    """Migrate a private copy of the database at ``path`` to the current schema; ``temporary`` must not exist."""
    with closing(connect_to(copy, path)) as connection:
        version = schema_version(connection)
        if version is None or version >= SCHEMA_VERSION:
            return
        from opmkit.index.sqlite.migrations import migrate  # imports modules that current databases do not need

        with schema_errors(path, version):
            drop_triggers(connection)
            migrate(connection, version)
    with schema_errors(path, version):
        write_compact(copy, temporary, schema_timestamp())
    with file_errors(path):
        shutil.copyfile(temporary, copy)
        temporary.unlink()


def check_file(path: Path) -> None:
    """Raise InvalidDatabase unless the header is that of a complete SQLite database."""
    with path.open("rb") as file:
        header = file.read(_HEADER_SIZE)
    if len(header) < _HEADER_SIZE or not header.startswith(_MAGIC):
        from opmkit.imagetools.reference import archive_hint  # slow to import: databases do not need it

        raise InvalidDatabase(f"{path}: not a database", hint=archive_hint(path) or _INDEX_HINT)
    page_size = int.from_bytes(header[16:18], "big")
    expected = (65536 if page_size == 1 else page_size) * int.from_bytes(header[28:32], "big")
    size = path.stat().st_size
    if size < expected:
        raise damaged(path, f"truncated: {size} of {expected} bytes")


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise InvalidDatabase unless the schema is that of an index database in a supported version."""
    version = schema_version(connection)
    if version is None:
        raise InvalidDatabase(f"{path}: not an index database", hint=_INDEX_HINT)
    if version > SCHEMA_VERSION:
        raise InvalidDatabase(
            f"{path}: unsupported schema version {version}: this release supports versions up to {SCHEMA_VERSION}",
            hint="use a newer release of opmkit",
        )
    _check_types(connection, path)


def _check_types(connection: sqlite3.Connection, path: Path) -> None:
    """Raise InvalidDatabase for a value whose type is not that of its column; SQLite accepts any in most columns."""
    for table, columns in COLUMN_TYPES.items():
        invalid = [f"typeof({name}) NOT IN ({_sql_list(types)})" for name, types in columns.items()]
        flags = ", ".join(f"max({condition})" for condition in invalid)
        found = connection.execute(f"SELECT {flags} FROM {table}").fetchone()  # noqa: S608 - constant names
        for (name, types), condition, is_invalid in zip(columns.items(), invalid, found, strict=True):
            if is_invalid:
                query = f"SELECT typeof({name}) FROM {table} WHERE {condition} LIMIT 1"  # noqa: S608 - constant names
                (other,) = connection.execute(query).fetchone()
                raise damaged(path, f"{table}.{name}: {other} instead of {types[0]}", hint=REBUILD_HINT)


def _sql_list(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


def schema_timestamp() -> str:
    """Return the time of the schema migration as SQLite formats it (see SOURCE_DATE_EPOCH)."""
    return datetime.fromtimestamp(source_date_epoch(), UTC).strftime("%Y-%m-%d %H:%M:%S")
