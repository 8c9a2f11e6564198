"""Load directories of package manifests into an index database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.manifest import ManifestCache
from opmkit.index.change import ChangeResult, DatabaseChange
from opmkit.index.errors import CatalogError
from opmkit.index.operations.initialize.loader import InitializeResult, Loader
from opmkit.index.operations.package_manifest import read_bundle, read_package, walk

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.sqlite import IndexDatabase


@dataclass(frozen=True, slots=True)
class InitializeDatabase(DatabaseChange):
    """Store the packages and bundles of a directory."""

    directory: Path
    permissive: bool = False

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Store the packages and bundles in a database."""
        result = initialize(database, self.directory, permissive=self.permissive)
        no_package = f"{self.directory}: no package manifest found (*.package.yaml), so no bundle is in a channel"
        return ChangeResult(failures=result.failures, warnings=() if result.packages else (no_package,))


def initialize(database: IndexDatabase, directory: Path, *, permissive: bool = False) -> InitializeResult:
    """Store every bundle below a directory, then every package that a file there describes.

    A bundle is a ClusterServiceVersion with the other objects in its directory. It belongs to the packages whose
    channels lead to it. Of two files for the same package the later by path is used.

    Atomic unless permissive; then bundles and packages that cannot be stored are returned as failures. A bundle that
    lacks CRDs that it owns is a failure, but is stored.

    Raises:
        CatalogError: One or more errors.
    """
    if not directory.is_dir():
        missing = CatalogError(f"{directory}: not a directory", hint="pass the directory of the manifests")
        if not permissive:
            raise missing
        return InitializeResult((), (), (missing,))
    loader = Loader(database)
    cache = ManifestCache()

    def load_bundle(path: Path) -> None:
        if bundle := read_bundle(path, cache):
            loader.store_bundle(bundle, str(path))

    def load_package(path: Path) -> None:
        if package := read_package(path):
            loader.store_package(package, str(path))

    def load_all() -> None:
        for load in (load_bundle, load_package):
            for path in walk(directory):
                loader.attempt(load, path)

    return loader.run(load_all, permissive=permissive)
