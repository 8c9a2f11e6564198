"""Serving catalogs: index databases and file-based ones."""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.index.server.ports import ReservedPort
from opmkit.index.server.prepared import PreparedAnswers
from opmkit.index.server.processes import run_processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.database.serving import ServedDatabase
    from opmkit.index.server.catalogcache import CatalogCache
    from opmkit.index.server.service import Loaded
    from opmkit.index.server.settings import ServerSettings

_log = logging.getLogger(__name__)


def serve_database(path: Path, settings: ServerSettings, *, migrate: bool = True, name: str = "") -> None:
    """Serve the index database at ``path`` until a signal (INT, TERM) or the timeout, then stop gracefully.

    The file is only read. One of an older schema is migrated on a private copy, unless ``migrate`` is false. Logs go to
    the loggers of this package; ``name`` is what they call the database.

    Raises:
        InvalidDatabase: no index database, a damaged one, or a schema that is too new.
        DatabaseUnavailable: no such file, or it can't be read.
        ServerError: the port or the certificate can't be used, or a process of the server has died.
    """
    from opmkit.index.database.serving import served_database  # catalogs do without SQL

    with ExitStack() as stack:
        database = stack.enter_context(served_database(path, migrate=migrate))
        port = stack.enter_context(ReservedPort(settings.port))
        # What every process needs to listen is loaded before they part, so that they share it. It starts no thread.
        from opmkit.index.server.listener import Listener

        listener = Listener(port.number, settings)
        prepared = stack.enter_context(PreparedAnswers(database.bundles))
        fields = {"database": name or str(path), "port": port.number}
        if not database.tables:
            _log.warning("no tables found in db", extra={"fields": fields})
        run_processes(
            lambda life: listener.run(lambda: _loaded(database, prepared), life),
            settings,
            lambda: _log.info("serving registry", extra={"fields": fields}),
        )


def serve_catalog(
    root: Path, settings: ServerSettings, *, cache: Path | None = None, enforce: bool = False, name: str = ""
) -> None:
    """Serve the file-based catalog at ``root`` as `serve_database` does a database.

    The directory ``cache`` keeps what is prepared from one start to the next, a temporary one for this run alone. With
    ``enforce`` it has to belong to the catalog already.

    Raises:
        CacheUnfit: if it does not, or has other content.
        InvalidCatalog: with all that is wrong with the catalog.
        StoreError: if something can't be read or written.
        ServerError: the port or the certificate can't be used, or a process of the server has died.
    """
    from opmkit.index.server.catalogcache import load_cache

    with ExitStack() as stack:
        directory = cache or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="opm-serve-cache-")))
        port = stack.enter_context(ReservedPort(settings.port))
        kept = load_cache(root, directory, enforce=enforce)
        from opmkit.index.server.listener import Listener

        listener = Listener(port.number, settings)
        loaded = stack.enter_context(_loaded_catalog(kept))  # all processes share it
        fields = {"configs": name or str(root), "port": port.number}
        run_processes(
            lambda life: listener.run(lambda: nullcontext(loaded), life),
            settings,
            lambda: _log.info("serving registry", extra={"fields": fields}),
        )


def prepare_catalog(root: Path, cache: Path | None, *, enforce: bool) -> None:
    """Make the cache of a catalog, unless there is one that belongs to it; raises what `serve_catalog` does."""
    from opmkit.index.server.catalogcache import load_cache

    with tempfile.TemporaryDirectory(prefix="opm-serve-cache-") as scratch:
        load_cache(root, cache or Path(scratch), enforce=enforce)


@contextmanager
def _loaded_catalog(cache: CatalogCache) -> Iterator[Loaded]:
    from opmkit.index.server.from_catalog import CatalogAnswers
    from opmkit.index.server.requests import read_request
    from opmkit.index.server.service import Loaded

    with CatalogAnswers.open(cache) as answers:
        yield Loaded(answers, read_request)


@contextmanager
def _loaded(database: ServedDatabase, prepared: PreparedAnswers) -> Iterator[Loaded]:
    """What a process answers calls with."""
    from opmkit.index.server.from_database import DatabaseAnswers
    from opmkit.index.server.requests import read_request
    from opmkit.index.server.service import Loaded

    with DatabaseAnswers.open(database, prepared) as answers:
        yield Loaded(answers, read_request)
