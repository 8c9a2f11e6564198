"""Serve index databases and file-based catalogs."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from opmkit.core.hints import Hint
from opmkit.core.scratch import ScratchDirectory
from opmkit.index.hint_terms import IndexOperation, IndexSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opmkit.index.sqlite.serving import ServedDatabase
    from opmkit.server.json_cache.cache import JsonCache
    from opmkit.server.response_cache import ResponseCache
    from opmkit.server.service import LoadedBackend
    from opmkit.server.settings import ServerSettings

_log = logging.getLogger(__name__)

_NO_CONTEXT = nullcontext()
_CACHE = "cache"
"""Name of a cache in a scratch directory, which itself contains a lock file."""


def serve_database(
    path: Path,
    settings: ServerSettings,
    *,
    migrate: bool = True,
    name: str = "",
    loading: AbstractContextManager[object] = _NO_CONTEXT,
) -> None:
    """Serve the index database at ``path`` until a signal (INT, TERM, HUP) or the timeout, then stop gracefully.

    The file is not changed: a database with an older schema is migrated in a private copy, unless ``migrate`` is false.
    Log records of this package call it ``name``. The database is opened within ``loading``.

    Raises:
        InvalidDatabase: The file is not an index database, damaged, or its schema is too new.
        DatabaseUnavailable: The file does not exist or cannot be read.
        ServerError: The port or the certificate cannot be used, or a worker has ended.
    """
    from opmkit.index.sqlite.serving import served_database  # not needed for file-based catalogs
    from opmkit.server.acceptor import ReservedPort
    from opmkit.server.response_cache import ResponseCache
    from opmkit.server.supervisor import run_workers

    with ExitStack() as stack:
        with loading:
            database = stack.enter_context(served_database(path, migrate=migrate))
        port = stack.enter_context(ReservedPort(settings.port))
        # Modules that workers need to listen are imported before the fork, to share their memory. They start no thread.
        from opmkit.server.worker import Worker

        worker = Worker(port.number, settings)
        cache = stack.enter_context(ResponseCache(database.bundles))
        fields = {"database": name or str(path), "port": port.number}
        if not database.tables:
            _log.warning("no tables found in db", extra={"fields": fields})
        run_workers(
            lambda context: worker.run(lambda: _open_database(database, cache), context),
            settings,
            lambda: _log.info("serving registry", extra={"fields": fields}),
        )


def serve_catalog(
    root: Path,
    settings: ServerSettings,
    *,
    cache: Path | None = None,
    enforce: bool = False,
    name: str = "",
    loading: AbstractContextManager[object] = _NO_CONTEXT,
) -> None:
    """Serve the file-based catalog in the directory ``root``, like `serve_database`.

    The catalog's cache is in the directory ``cache``, or in a temporary one. With ``enforce`` it must be valid already.
    If it has operator-registry's other format, which opmkit cannot read, a temporary one is built. The catalog
    is loaded within ``loading``.

    Raises:
        InvalidCache: The cache is not valid but must be, or the directory contains other files.
        InvalidCatalog: The catalog is not valid; the error lists all findings.
        DiskError: A file cannot be read or written.
        ServerError: The port or the certificate cannot be used, or a worker has ended.
    """
    with ExitStack() as stack:
        readable_cache = _readable_cache(cache)
        opening = stack.enter_context(_opening(root, readable_cache, enforce=enforce))
        # While another process reads the catalog, this one imports what all workers need, to share their memory.
        from opmkit.index.grpc_api import parse_request
        from opmkit.server.acceptor import ReservedPort
        from opmkit.server.catalog_backend import CatalogBackend, count_records
        from opmkit.server.response_cache import ResponseCache
        from opmkit.server.service import LoadedBackend
        from opmkit.server.supervisor import run_workers
        from opmkit.server.worker import Worker

        port = stack.enter_context(ReservedPort(settings.port))
        http = settings.http
        http_port = stack.enter_context(ReservedPort(http.port, IndexSetting.HTTP_PORT)) if http else None
        with loading:
            json_cache = opening.open()
        api = None
        if http and http_port:
            from opmkit.server.http_api.api import CatalogApi
            from opmkit.server.http_api.content import open_content

            content = stack.enter_context(open_content(root, json_cache, readable_cache))
            api = http_port.number, CatalogApi(content, http.catalog)
        worker = Worker(port.number, settings, api, experimental=True)
        responses = stack.enter_context(ResponseCache(count_records(json_cache)))
        loaded = LoadedBackend(CatalogBackend(json_cache, responses), parse_request)  # shared by all workers
        fields = {"configs": name or str(root), "port": port.number}
        if http_port:
            fields["http_port"] = http_port.number
        run_workers(
            lambda context: worker.run(lambda: nullcontext(loaded), context),
            settings,
            lambda: _log.info("serving registry", extra={"fields": fields}),
            opening.check,
        )


def build_cache(root: Path, cache: Path | None, *, enforce: bool, http: bool = False) -> None:
    """Build the cache of a catalog unless it is valid; raises what `serve_catalog` raises.

    A cache in operator-registry's other format is replaced, since its servers would prefer it. With ``http`` the
    documents for the web API are stored as well.
    """
    from opmkit.server.json_cache.cache import remove_unreadable

    with _opened_cache(root, cache, enforce=enforce) as json_cache:
        if http:
            from opmkit.server.http_api.content import open_content

            with open_content(root, json_cache, cache, must_store=cache is not None):
                pass
    if cache is not None:
        remove_unreadable(cache)


class _Opening(NamedTuple):
    """A function that opens the cache of a catalog, and one that raises ServerError if a process for it has failed."""

    open: Callable[[], JsonCache]
    check: Callable[[], None] = lambda: None


@contextmanager
def _opening(root: Path, directory: Path | None, *, enforce: bool) -> Iterator[_Opening]:
    """Prepare to open the cache in ``directory``; for None, start a process that builds one."""
    if directory is not None:
        from opmkit.server.json_cache.cache import load_cache

        yield _Opening(partial(load_cache, root, directory, enforce=enforce))
        return
    from opmkit.server.json_cache.background import BackgroundBuild

    with ScratchDirectory("opm-serve-cache-") as scratch, BackgroundBuild(root, Path(scratch)) as build:
        yield _Opening(build.open, build.check)


@contextmanager
def _opened_cache(root: Path, directory: Path | None, *, enforce: bool) -> Iterator[JsonCache]:
    """Provide the cache in ``directory``, or one in a temporary directory for None, where nothing is enforced."""
    from opmkit.server.json_cache.cache import build_private_cache, load_cache

    if directory is not None:
        yield load_cache(root, directory, enforce=enforce)
        return
    with ScratchDirectory("opm-serve-cache-") as scratch:
        yield build_private_cache(root, Path(scratch, _CACHE))


def _readable_cache(cache: Path | None) -> Path | None:
    """Return the cache directory, or None if there is none or its format cannot be read."""
    from opmkit.server.json_cache.cache import unreadable_format

    unreadable = unreadable_format(cache) if cache is not None else ""
    if unreadable:
        fields = {"cache": str(cache), "hint": Hint("build it with {} to start faster", IndexOperation.BUILD_CACHE)}
        _log.warning(
            "the cache has the format %s, which opmkit cannot read: building a temporary cache",
            unreadable,
            extra={"fields": fields},
        )
        return None
    return cache


@contextmanager
def _open_database(database: ServedDatabase, cache: ResponseCache) -> Iterator[LoadedBackend]:
    from opmkit.index.grpc_api import parse_request
    from opmkit.server.database_backend import DatabaseBackend
    from opmkit.server.service import LoadedBackend

    with DatabaseBackend.open(database, cache) as backend:
        yield LoadedBackend(backend, parse_request)
