"""Store package manifests in an index database, from directories or a ConfigMap."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

from msgspec import Struct

from opmkit.bundle.cluster_service_version import read_csv
from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND
from opmkit.bundle.manifest import ManifestCache, manifest_from_value
from opmkit.core.files import write_files
from opmkit.core.scratch import ScratchDirectory
from opmkit.documents import fields
from opmkit.documents.document import read_document
from opmkit.documents.errors import DocumentError
from opmkit.index.change import ChangeResult, DatabaseChange
from opmkit.index.errors import BundleExists, CatalogError, GraphError, combine_errors
from opmkit.index.graph import Member, PackageGraph, replaces_graph
from opmkit.index.operations.export import (
    PackageManifest,
    assemble_bundle,
    locate_error,
    missing_apis,
    read_bundle,
    read_package,
    walk,
)
from opmkit.index.sqlite import replace_database
from opmkit.index.sqlite.bundles import BundleKey, insert_apis, insert_bundle
from opmkit.index.sqlite.packages import deprecated_bundles, nodes, replace_package

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opmkit.bundle.manifest import ObjectManifest
    from opmkit.bundle.model import ApiKey, Bundle
    from opmkit.documents.json_value import JsonValue
    from opmkit.index.graph import ChannelGraph
    from opmkit.index.sqlite import IndexDatabase


P = ParamSpec("P")


class InitializeResult(Struct, frozen=True):
    """The names of the stored bundles and packages, and the failures in permissive mode."""

    bundles: tuple[str, ...]
    packages: tuple[str, ...]
    failures: tuple[CatalogError, ...] = ()


class Loader(Struct, frozen=True):
    """Stores bundles without a package, then the packages whose channels refer to them.

    Parameters called ``where`` are source locations for error messages.
    """

    database: IndexDatabase
    bundles: list[str] = []
    packages: dict[str, None] = {}
    failures: list[CatalogError] = []

    def run(self, load_all: Callable[[], None], *, permissive: bool) -> InitializeResult:
        """Call ``load_all`` in a transaction; unless permissive, roll back and raise if there are failures."""
        with self.database.transaction():
            self.attempt(load_all)
            if self.failures and not permissive:
                raise combine_errors(self.failures)
        return InitializeResult(tuple(self.bundles), tuple(self.packages), tuple(self.failures))

    def attempt(self, load: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call ``load`` and record a CatalogError that it raises as a failure."""
        try:
            load(*args, **kwargs)
        except CatalogError as error:
            self.failures.append(error)

    def store_bundle(self, bundle: Bundle, where: str) -> None:
        """Store a bundle.

        Raises:
            CatalogError: The bundle cannot be stored; or it is stored, but lacks CRDs that it owns.
        """
        if bundle.csv.substitutes_for:
            raise CatalogError(
                f"{where}: bundle {bundle.name} cannot be added: it substitutes {bundle.csv.substitutes_for}",
                hint="remove the annotation olm.substitutesFor, which is supported only in bundle images",
            )
        if nodes(self.database, [bundle.name]):
            raise BundleExists(
                f"{where}: bundle {bundle.name} already exists",
                hint="remove one of them",
            )
        insert_bundle(self.database, bundle)
        key = BundleKey.from_texts(bundle.name, bundle.csv.version, bundle.image)
        insert_apis(self.database, key, bundle.provided_apis, bundle.required_apis)
        self.bundles.append(bundle.name)
        if missing := missing_apis(bundle):
            raise CatalogError(
                f"{where}: missing CRDs owned by {bundle.name}: {', '.join(missing)}",
                hint="add the CRDs, or correct their group, version, kind and plural",
            )

    def store_package(self, package: PackageManifest, where: str) -> None:
        """Store a package; its bundles must be stored already.

        Raises:
            GraphError: The package has no default channel, or a channel has an invalid graph.
        """
        try:
            replace_package(self.database, _graph(self.database, package))
        except GraphError as error:
            raise GraphError(f"{where}: {error.message}", hint=error.hint) from error
        self.packages[package.name] = None


def _graph(database: IndexDatabase, package: PackageManifest) -> PackageGraph:
    """Build the update graph of a package from the heads of its channels."""
    deprecated = deprecated_bundles(database)
    heads = {channel: head for channel, head in package.heads if head not in deprecated}
    default = next(iter(heads)) if len(package.heads) == 1 and heads else package.default_channel
    if default not in heads:
        raise GraphError(
            f"no default channel specified for {package.name}: its channels are: {', '.join(heads) or 'none'}",
            hint="set defaultChannel to one of them",
        )
    known = nodes(database, set(heads.values()))
    channels: list[ChannelGraph] = []
    for channel, head in heads.items():
        if head not in known:
            raise GraphError(
                f"channel {channel} of package {package.name}: head {head} not found",
                hint="add the manifests of that version, or correct currentCSV",
            )
        # One channel at a time with the head as the only member: its version need not be valid then.
        member = Member(head, "", (channel,), channel)
        channels += replaces_graph(package.name, [member], known, deprecated).channels
    return PackageGraph(package.name, default, tuple(channels))


DEFINITIONS = "customResourceDefinitions"
VERSIONS = "clusterServiceVersions"
PACKAGES = "packages"
"""Keys of the ConfigMap, whose values are lists in YAML or JSON."""


def write_config_map_database(
    path: Path, data: Mapping[str, str], name: str, *, permissive: bool = False
) -> InitializeResult:
    """Replace the file at ``path`` atomically by a database with the content of a ConfigMap.

    Raises:
        CatalogError: See `load_config_map`; the file is unchanged.
        DiskError: The file cannot be written.
    """
    with ScratchDirectory("opm-configmap-") as scratch:
        new = Path(scratch, "index.db")
        with replace_database(new, durable=False) as database:
            result = load_config_map(database, data, name, permissive=permissive)
        write_files(path.absolute().parent, {path.name: new})
    return result


def load_config_map(
    database: IndexDatabase, data: Mapping[str, str], name: str, *, permissive: bool = False
) -> InitializeResult:
    """Store every bundle and package in the ``data`` of the ConfigMap called ``name``.

    A bundle is a ClusterServiceVersion with the CRDs that it owns, unmodified.

    Atomic unless permissive; then bundles and packages that cannot be stored are returned as failures. A missing key or
    an invalid list ends the operation.

    Raises:
        CatalogError: One or more errors.
    """
    loader = Loader(database)
    definitions = _Definitions()

    def load_all() -> None:
        for where, value in _entries(data, DEFINITIONS, name):
            loader.attempt(definitions.add, where, value)
        for where, value in _entries(data, VERSIONS, name):
            loader.attempt(_load_bundle, loader, definitions, where, value)
        for where, value in _entries(data, PACKAGES, name):
            loader.attempt(_load_package, loader, where, value)

    return loader.run(load_all, permissive=permissive)


class _Definitions(Struct, frozen=True):
    """The CRDs by provided API."""

    manifests: dict[ApiKey, ObjectManifest] = {}

    def add(self, where: str, value: JsonValue) -> None:
        manifest = _manifest(where, value, CRD_KIND)
        if manifest.crd_error:
            raise locate_error(where, manifest.crd_error)
        for api in manifest.apis:
            if api in self.manifests:
                raise CatalogError(
                    f"{where}: duplicate CRD {api.plural}.{api.group} in version {api.version}",
                    hint="remove one of them",
                )
        self.manifests.update(dict.fromkeys(manifest.apis, manifest))


def _load_bundle(loader: Loader, definitions: _Definitions, where: str, value: JsonValue) -> None:
    manifest = _manifest(where, value, CSV_KIND)
    try:
        csv = read_csv(manifest.json)
        owned = [definitions.manifests[api] for api in csv.owned_crds if api in definitions.manifests]
        bundle = assemble_bundle(csv, list({part.json: part for part in (manifest, *owned)}.values()))
    except (BundleError, DocumentError) as error:
        raise locate_error(where, error) from error
    loader.store_bundle(bundle, where)


def _load_package(loader: Loader, where: str, value: JsonValue) -> None:
    try:
        package = PackageManifest.parse(value)
        if package is None:
            raise InvalidBundle("missing packageName", hint="set the name of the package")
    except (BundleError, DocumentError) as error:
        raise locate_error(where, error) from error
    loader.store_package(package, where)


def _entries(data: Mapping[str, str], key: str, name: str) -> Iterator[tuple[str, JsonValue]]:
    """Yield the values of a list with their locations, counted from 0."""
    where = f"ConfigMap {name}: {key}"
    if key not in data:
        raise CatalogError(
            f"ConfigMap {name}: couldn't find expected key {key} in configmap",
            hint=f"add the keys {DEFINITIONS}, {VERSIONS} and {PACKAGES}",
        )
    try:
        values = fields.items(read_document(data[key].encode()).value, "the document")
    except (BundleError, DocumentError) as error:
        raise locate_error(where, error) from error
    for position, value in enumerate(values):
        yield f"{where}[{position}]", value


def _manifest(where: str, value: JsonValue, kind: str) -> ObjectManifest:
    try:
        manifest = manifest_from_value(value)
    except (BundleError, DocumentError) as error:
        raise locate_error(where, error) from error
    if manifest.kind != kind:
        raise CatalogError(f"{where}: unexpected kind {manifest.kind}, not {kind}", hint="remove the object")
    return manifest


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
