"""Operations that serve catalogs."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from opmkit.api.session import Session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from opmkit.index.image.source import SourceKind
    from opmkit.server.settings import ServerSettings

_NO_CONTEXT = nullcontext()


class ServingOperations(Session):
    """Operations that serve catalogs."""

    def serve_catalog(
        self,
        source: str,
        settings: ServerSettings | None = None,
        *,
        cache: Path | None = None,
        enforce: bool = False,
        loading: AbstractContextManager[object] = _NO_CONTEXT,
    ) -> None:
        """Serve a file-based catalog over gRPC until a signal (INT, TERM, HUP) or the timeout, then stop gracefully.

        The catalog is first validated and cached. Call it from the main thread of a process without other threads: the
        workers are forked.

        Args:
            source: Catalog directory, or index image with a file-based catalog.
            settings: Settings of the server.
            cache: Directory of the cache, which later calls reuse; None for a temporary one.
            enforce: Whether the cache must be valid already.
            loading: Context to load the catalog in, such as one that shows a message.

        Raises:
            InvalidCache: The cache is not valid but must be, or the directory contains other files.
            InvalidCatalog: The catalog is not valid; the error lists all findings.
            CatalogError, ImageToolsError: The catalog cannot be read.
            DiskError: A file cannot be read or written.
            ServerError: The port or the certificate cannot be used, or a worker has ended.
        """
        from opmkit.server.serve import serve_catalog
        from opmkit.server.settings import ServerSettings

        with self._open_catalog(source) as root:
            chosen = settings or ServerSettings()
            serve_catalog(root, chosen, cache=cache, enforce=enforce, name=source, loading=loading)

    def build_catalog_cache(
        self,
        source: str,
        cache: Path | None = None,
        *,
        enforce: bool = False,
        http: bool = False,
        loading: AbstractContextManager[object] = _NO_CONTEXT,
    ) -> None:
        """Validate a file-based catalog, and build the cache that `serve_catalog` uses unless it is valid.

        Args:
            source: Catalog directory, or index image with a file-based catalog.
            cache: Directory of the cache; None to only validate the catalog.
            enforce: Whether the cache must be valid already.
            http: Whether to store the documents for the web API as well.
            loading: Context to build the cache in, as for `serve_catalog`.

        Raises:
            InvalidCache: The cache is not valid but must be, or the directory contains other files.
            InvalidCatalog: The catalog is not valid; the error lists all findings.
            CatalogError, ImageToolsError: The catalog cannot be read.
            DiskError: A file cannot be read or written.
        """
        from opmkit.server.serve import build_cache

        with self._open_catalog(source) as root, loading:
            build_cache(root, cache, enforce=enforce, http=http)

    def serve_database(
        self,
        database: Path,
        settings: ServerSettings | None = None,
        *,
        image: str = "",
        migrate: bool = True,
        loading: AbstractContextManager[object] = _NO_CONTEXT,
    ) -> None:
        """Serve an index database over gRPC, like `serve_catalog`; the file is not changed.

        Args:
            database: Database file.
            settings: Settings of the server.
            image: Index image whose database to serve instead of the file.
            migrate: Whether to migrate a private copy of a database with an older schema.
            loading: Context to open the database in, as for `serve_catalog`.

        Raises:
            InvalidDatabase: The file is not an index database, damaged, or its schema is too new.
            DatabaseUnavailable: The file does not exist or cannot be read.
            CatalogError, ImageToolsError: The image cannot be read, or has no database.
            ServerError: The port or the certificate cannot be used, or a worker has ended.
        """
        from opmkit.server.serve import serve_database
        from opmkit.server.settings import ServerSettings

        with self._open_database(image) if image else nullcontext(database) as path:
            serve_database(path, settings or ServerSettings(), migrate=migrate, name=image, loading=loading)

    @contextmanager
    def _open_catalog(self, source: str) -> Iterator[Path]:
        """Provide the directory of a catalog."""
        from opmkit.imagetools.reference import named_path

        if (path := named_path(source)) and path.is_dir():
            yield path
            return
        from opmkit.index.image.source import CATALOGS

        with self._open_source(source, CATALOGS) as path:
            yield path

    @contextmanager
    def _open_database(self, image: str) -> Iterator[Path]:
        """Provide the database file of an index image."""
        from opmkit.index.image.source import SourceKind

        with self._open_source(image, {SourceKind.DATABASE_IMAGE}) as path:
            yield path

    @contextmanager
    def _open_source(self, source: str, kinds: Collection[SourceKind]) -> Iterator[Path]:
        from opmkit.index.image.source import IndexSource

        index = IndexSource.resolve(lambda: self._registry_tool, source)
        index.require(kinds)
        with index.open() as content:
            yield content.path
