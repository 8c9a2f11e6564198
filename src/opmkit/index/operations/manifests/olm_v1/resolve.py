"""Find the bundle of a file-based catalog that OLM v1 installs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opmkit.bundle.property_types import REFUSED_BY_OLM_V1
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.model import Catalog
from opmkit.index.fbc.packages import csv_specs
from opmkit.index.operations.manifests.resources import ALL, OWN, SINGLE, read_install_modes
from opmkit.index.plan.extension import (
    ExtensionCatalog,
    ExtensionPackage,
    ExtensionRequest,
    best_bundle,
)
from opmkit.index.suggestions import suggest_names, unknown_packages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.fbc.blobs import Blobs, BundleBlob
    from opmkit.index.operations.manifests.olm_v1.cluster_extension import ClusterExtension

_EXPERIMENTAL = "OLM v1 only installs operators that watch one namespace if SingleOwnNamespaceInstallSupport is enabled"


class ResolvedExtension(Struct, frozen=True):
    """An extension with the namespace to watch, and the bundle to install.

    Attributes:
        extension: The extension.
        bundle: Name of the bundle.
        image: Image of the bundle.
        warnings: Reasons why OLM may not install it.
    """

    extension: ClusterExtension
    bundle: str
    image: str
    warnings: tuple[str, ...]


def resolve_extension(extension: ClusterExtension, blobs: Blobs) -> ResolvedExtension:
    """Find the bundle to install: the highest version in the channels, and not deprecated if there is another one.

    Raises:
        UnknownPackage: The package does not exist.
        InvalidCatalog: The catalog is invalid.
        CatalogError: A channel does not exist, no version matches, or the operator does not support the namespace to
            watch.
    """
    catalog = Catalog.from_blobs(blobs)
    for error in unknown_packages([extension.package], catalog.packages):
        raise error
    bundle = _select_bundle(extension, blobs, list(catalog.packages[extension.package].channels))
    modes = next(filter(None, map(read_install_modes, csv_specs(bundle))), {})
    if modes:
        extension = _select_namespace(extension, bundle.name, modes)
    warnings = [_EXPERIMENTAL] if extension.watch_namespace else []
    warnings += [
        f"{bundle.name}: OLM v1 does not install bundles with dependencies ({kind})"
        for kind in REFUSED_BY_OLM_V1
        if any(True for _ in bundle.property_values(kind))
    ]
    return ResolvedExtension(extension, bundle.name, bundle.image, tuple(warnings))


def _select_bundle(extension: ClusterExtension, blobs: Blobs, channels: Sequence[str]) -> BundleBlob:
    """Return the bundle that OLM v1 prefers; raises CatalogError for an unknown channel, or if no version matches."""
    for name in extension.channels:
        if name not in channels:
            raise CatalogError(
                f'package "{extension.package}": channel "{name}" not found',
                hint=suggest_names("channels", name, channels),
            )
    request = ExtensionRequest(extension.package, extension.version, extension.channels)
    found = best_bundle(request, ExtensionCatalog(extension.catalog, blobs))
    if found is None:
        bundles = ExtensionPackage.of(blobs, extension.package, extension.channels).bundles
        raise CatalogError(
            f'package "{extension.package}": no version matches "{extension.version}"',
            hint=suggest_names("bundles", extension.version, sorted(bundle.name for bundle in bundles)),
        )
    return found.bundle


def _select_namespace(extension: ClusterExtension, bundle: str, modes: dict[str, bool]) -> ClusterExtension:
    """Return the extension with a namespace to watch that the operator supports."""
    if not extension.watch_namespace and not modes.get(ALL) and modes.get(OWN):
        extension = replace(extension, watch_namespace=extension.namespace)
    mode = ALL if not extension.watch_namespace else OWN if extension.watch_namespace == extension.namespace else SINGLE
    if not modes.get(mode):
        supported = ", ".join(sorted(name for name, is_supported in modes.items() if is_supported)) or "none"
        raise CatalogError(
            f"{bundle}: unsupported install mode {mode}",
            hint=f"choose target and install namespaces for one of its modes: {supported}",
        )
    return extension
