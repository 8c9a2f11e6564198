"""A database from a ConfigMap that holds package manifests, as catalogs were before bundle images."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle import crd, fields
from opmkit.bundle.cluster_service_version import CSV_KIND, read_csv
from opmkit.bundle.document import read_document
from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.manifest import manifest_from_value
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.index.errors import CatalogError
from opmkit.index.files import put_files
from opmkit.index.operations.initialize.loader import Loader
from opmkit.index.operations.packagemanifest import PackageManifest, assemble_bundle, located
from opmkit.index.sqlite import replace_database

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.json_value import JsonValue
    from opmkit.bundle.manifest import Manifest
    from opmkit.bundle.model import ApiKey
    from opmkit.index.operations.initialize.loader import InitializeResult
    from opmkit.index.sqlite import IndexDatabase

DEFINITIONS = "customResourceDefinitions"
VERSIONS = "clusterServiceVersions"
PACKAGES = "packages"
"""The keys of the ConfigMap; each holds a list in YAML or JSON."""


def write_config_map_database(
    path: Path, data: Mapping[str, str], name: str, *, permissive: bool = False
) -> InitializeResult:
    """Make a database of what `load_config_map` reads, and put it in the place of the file at ``path``, whole.

    Raises:
        CatalogError: if it can't be read; then there is the file that was there before.
        StoreError: if the disk says no.
    """
    with ScratchDirectory("opm-configmap-") as scratch:
        made = Path(scratch, "index.db")
        with replace_database(made, durable=False) as database:
            result = load_config_map(database, data, name, permissive=permissive)
        put_files(path.absolute().parent, {path.name: made})
    return result


def load_config_map(
    database: IndexDatabase, data: Mapping[str, str], name: str, *, permissive: bool = False
) -> InitializeResult:
    """Store every bundle and package in the ``data`` of the ConfigMap called ``name``.

    A bundle is a ClusterServiceVersion with the CRDs of the list that it owns, each as it is written there.

    All or nothing, unless ``permissive``: then what can't be stored is told as one of the ``failures``; where a key is
    missing or its list can't be read, nothing of the keys after it is stored.

    Raises:
        CatalogError: what went wrong, several errors in one where there are.
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
    """The CRDs by the APIs that they provide."""

    manifests: dict[ApiKey, Manifest] = field(default_factory=dict)

    def add(self, where: str, value: JsonValue) -> None:
        manifest = _manifest(where, value, crd.CRD_KIND)
        if manifest.crd_error:
            raise located(where, manifest.crd_error)
        for api in manifest.apis:
            if api in self.manifests:
                raise CatalogError(
                    f"{where}: the CRD {api.plural}.{api.group} is there twice, in version {api.version}",
                    advice="Keep one of them.",
                )
        self.manifests.update(dict.fromkeys(manifest.apis, manifest))


def _load_bundle(loader: Loader, definitions: _Definitions, where: str, value: JsonValue) -> None:
    manifest = _manifest(where, value, CSV_KIND)
    try:
        csv = read_csv(manifest.json)
        owned = [definitions.manifests[api] for api in csv.owned_crds if api in definitions.manifests]
        bundle = assemble_bundle(csv, list({each.json: each for each in (manifest, *owned)}.values()))
    except BundleError as error:
        raise located(where, error) from error
    loader.store_bundle(bundle, where)


def _load_package(loader: Loader, where: str, value: JsonValue) -> None:
    try:
        package = PackageManifest.parse(value)
        if package is None:
            raise InvalidBundle("the entry has no packageName", advice="Name the package.")
    except BundleError as error:
        raise located(where, error) from error
    loader.store_package(package, where)


def _entries(data: Mapping[str, str], key: str, name: str) -> Iterator[tuple[str, JsonValue]]:
    """The values of a list, each with its place, counted from 0."""
    where = f"ConfigMap {name}: {key}"
    if key not in data:
        raise CatalogError(
            f"ConfigMap {name}: couldn't find expected key {key} in configmap",
            advice=f"It has to have the keys {DEFINITIONS}, {VERSIONS} and {PACKAGES}.",
        )
    try:
        values = fields.items(read_document(data[key].encode()).value, "the document")
    except BundleError as error:
        raise located(where, error) from error
    for position, value in enumerate(values):
        yield f"{where}[{position}]", value


def _manifest(where: str, value: JsonValue, kind: str) -> Manifest:
    try:
        manifest = manifest_from_value(value)
    except BundleError as error:
        raise located(where, error) from error
    if manifest.kind != kind:
        raise CatalogError(f"{where}: a {manifest.kind}, not a {kind}", advice="Keep it elsewhere.")
    return manifest
