"""Load a ConfigMap with package manifests into an index database."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.cluster_service_version import read_csv
from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND
from opmkit.bundle.manifest import manifest_from_value
from opmkit.core.files import write_files
from opmkit.core.scratch import ScratchDirectory
from opmkit.documents import fields
from opmkit.documents.document import read_document
from opmkit.documents.errors import DocumentError
from opmkit.index.errors import CatalogError
from opmkit.index.operations.initialize.loader import Loader
from opmkit.index.operations.package_manifest import PackageManifest, assemble_bundle, locate_error
from opmkit.index.sqlite import replace_database

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.manifest import ObjectManifest
    from opmkit.bundle.model import ApiKey
    from opmkit.documents.json_value import JsonValue
    from opmkit.index.operations.initialize.loader import InitializeResult
    from opmkit.index.sqlite import IndexDatabase

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


@dataclass(frozen=True, slots=True)
class _Definitions:
    """The CRDs by provided API."""

    manifests: dict[ApiKey, ObjectManifest] = field(default_factory=dict)

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
