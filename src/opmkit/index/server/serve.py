"""Serving catalogs: index databases and file-based ones."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint, Operation
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.index.server.ports import ReservedPort
from opmkit.index.server.response_cache import ResponseCache
from opmkit.index.server.supervisor import run_processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.server.service import Loaded
    from opmkit.index.server.settings import ServerSettings
    from opmkit.index.sqlite.serving import ServedDatabase

_log = logging.getLogger(__name__)

_CACHE = "cache"
"""The directory of a cache within a scratch directory, which is locked itself."""


def serve_database(path: Path, settings: ServerSettings, *, migrate: bool = True, name: str = "") -> None:
    """Serve the index database at ``path`` until a signal (INT, TERM) or the timeout, then stop gracefully.

    The file is only read. One of an older schema is migrated on a private copy, unless ``migrate`` is false. Logs go to
    the loggers of this package; ``name`` is what they call the database.

    Raises:
        InvalidDatabase: no index database, a damaged one, or a schema that is too new.
        DatabaseUnavailable: no such file, or it can't be read.
        ServerError: the port or the certificate can't be used, or a process of the server has died.
    """
    from opmkit.index.sqlite.serving import served_database  # catalogs do without SQL

    with ExitStack() as stack:
        database = stack.enter_context(served_database(path, migrate=migrate))
        port = stack.enter_context(ReservedPort(settings.port))
        # What every process needs to listen is loaded before they part, so that they share it. It starts no thread.
        from opmkit.index.server.worker import Worker

        listener = Worker(port.number, settings)
        prepared = stack.enter_context(ResponseCache(database.bundles))
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

    The cache is in the directory ``cache``, or in a temporary one for this run alone. With ``enforce`` it must be valid
    already. A cache in operator-registry's other format cannot be read, so a temporary one is built in its place.

    Raises:
        InvalidCache: if the cache is not valid and must be, or the directory has other content.
        InvalidCatalog: with all that is wrong with the catalog.
        StoreError: if something can't be read or written.
        ServerError: the port or the certificate can't be used, or a process of the server has died.
    """
    from opmkit.index.server.json_cache.cache import load_cache

    with ExitStack() as stack:
        usable = _usable(cache)
        directory = usable or Path(stack.enter_context(ScratchDirectory("opm-serve-cache-")), _CACHE)
        port = stack.enter_context(ReservedPort(settings.port))
        loaded_cache = load_cache(root, directory, enforce=enforce and usable is not None)
        from opmkit.index.server.catalog_backend import CatalogBackend, count_entries
        from opmkit.index.server.requests import read_request
        from opmkit.index.server.service import Loaded
        from opmkit.index.server.worker import Worker

        listener = Worker(port.number, settings)
        prepared = stack.enter_context(ResponseCache(count_entries(loaded_cache)))
        loaded = Loaded(CatalogBackend(loaded_cache, prepared), read_request)  # all processes share it
        fields = {"configs": name or str(root), "port": port.number}
        run_processes(
            lambda life: listener.run(lambda: nullcontext(loaded), life),
            settings,
            lambda: _log.info("serving registry", extra={"fields": fields}),
        )


def prepare_catalog(root: Path, cache: Path | None, *, enforce: bool) -> None:
    """Build the cache of a catalog unless it is valid; raises the same errors as `serve_catalog`.

    A cache in operator-registry's other format is replaced: its servers would prefer it.
    """
    from opmkit.index.server.json_cache.cache import load_cache, remove_unreadable

    with ScratchDirectory("opm-serve-cache-") as scratch:
        load_cache(root, cache or Path(scratch, _CACHE), enforce=enforce)
    if cache is not None:
        remove_unreadable(cache)


def _usable(cache: Path | None) -> Path | None:
    """Return the cache directory, or None if there is none or its format cannot be read."""
    from opmkit.index.server.json_cache.cache import unreadable_format

    unreadable = unreadable_format(cache) if cache is not None else ""
    if unreadable:
        fields = {"cache": str(cache), "advice": Hint("build it with {} to start faster", Operation.BUILD_CACHE)}
        _log.warning(
            "the cache has the format %s, which opmkit cannot read: building a temporary cache",
            unreadable,
            extra={"fields": fields},
        )
        return None
    return cache


@contextmanager
def _loaded(database: ServedDatabase, prepared: ResponseCache) -> Iterator[Loaded]:
    """What a process answers calls with."""
    from opmkit.index.server.database_backend import DatabaseBackend
    from opmkit.index.server.requests import read_request
    from opmkit.index.server.service import Loaded

    with DatabaseBackend.open(database, prepared) as answers:
        yield Loaded(answers, read_request)
