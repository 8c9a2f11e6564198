"""What a person wants to install from an index, and whether the index has it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from opmkit.bundle.kubernetes_names import dns1123_label, dns1123_subdomain
from opmkit.index.errors import CatalogError, UnknownPackage
from opmkit.index.fbc.display_name import csv_specs
from opmkit.index.fbc.model import Catalog
from opmkit.index.operations.manifests.names import as_label, check_name
from opmkit.index.rendering.from_database import load_catalog
from opmkit.index.sqlite.catalog import cluster_service_version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.model import Package
    from opmkit.index.sqlite import IndexDatabase

SHARED_NAMESPACES = frozenset({"operators", "openshift-operators"})
"""Namespaces that come with OLM, with an OperatorGroup of theirs that targets all namespaces."""

ALL, OWN, SINGLE, MULTI = "AllNamespaces", "OwnNamespace", "SingleNamespace", "MultiNamespace"


@dataclass(frozen=True, slots=True)
class Installation:
    """A package to be installed in a namespace. Without a ``channel`` OLM takes the default one.

    The operator watches ``targets``: all namespaces where there is none, or where that is None and nothing else is
    known. ``existing`` says that the namespace is there with its OperatorGroup. Making one raises CatalogError for
    names that the cluster would raise_findings.
    """

    package: str
    namespace: str
    channel: str = ""
    starting_csv: str = ""
    approval: str = "Automatic"
    targets: tuple[str, ...] | None = None
    existing: bool = False

    def __post_init__(self) -> None:
        """Check the names."""
        if not as_label(self.package):
            raise CatalogError(f"package {self.package!r}: no object can be named after it", advice="see its spelling")
        check_name("install namespace", self.namespace, dns1123_label)
        for target in self.targets or ():
            check_name("target namespace", target, dns1123_label)
        if self.targets and not self.makes_namespace:
            raise CatalogError(
                f"namespace {self.namespace!r} has its OperatorGroup, which has target namespaces already",
                advice="leave them out, or install in another namespace",
            )
        if self.starting_csv:
            check_name("starting CSV", self.starting_csv, dns1123_subdomain)

    @property
    def makes_namespace(self) -> bool:
        """Whether the namespace and its OperatorGroup are to be made."""
        return not self.existing and self.namespace not in SHARED_NAMESPACES

    @property
    def install_mode(self) -> str:
        """The install mode that the operator has to support."""
        targets = self.targets or ()
        if len(targets) > 1:
            return MULTI
        return ALL if not targets else OWN if targets == (self.namespace,) else SINGLE


def resolve_in_database(installation: Installation, database: IndexDatabase) -> Installation:
    """The installation with what a database says: the default channel, and targets that the operator supports.

    Raises:
        UnknownPackage: the index does not have the package.
        CatalogError: it does not have the channel or the bundle to start with, or the operator does not support the
            targets.
    """
    return _resolve(
        installation,
        load_catalog(database),
        lambda _, bundle: _install_modes(_spec(cluster_service_version(database, bundle))),
    )


def resolve_in_catalog(installation: Installation, blobs: Blobs) -> Installation:
    """The same with what a file-based catalog says, which has to be valid; raises InvalidCatalog, too."""

    def install_modes(package: Package, bundle: str) -> Mapping[str, bool]:
        told = map(_install_modes, csv_specs(package.bundles[bundle]))
        return next(filter(None, told), {})

    return _resolve(installation, Catalog.from_blobs(blobs), install_modes)


def _resolve(
    installation: Installation, catalog: Catalog, install_modes: Callable[[Package, str], Mapping[str, bool]]
) -> Installation:
    packages = catalog.packages
    if installation.package not in packages:
        known = ", ".join(packages) or "none"
        raise UnknownPackage(
            f'package "{installation.package}" not found', advice=f"The packages of this index are: {known}."
        )
    package = packages[installation.package]
    bundle, channel = _chosen(installation, package)
    return _supported(replace(installation, channel=channel), bundle, install_modes(package, bundle))


def _chosen(installation: Installation, package: Package) -> tuple[str, str]:
    """The bundle that is installed first, and the channel that it is in."""
    name = installation.channel or package.default_channel
    channel = package.channels.get(name)
    if channel is None:
        raise CatalogError(
            f'package "{package.name}" has no channel "{name}"',
            advice=f"its channels are: {', '.join(package.channels)}",
        )
    start = installation.starting_csv
    if start and start not in channel.entries:
        raise CatalogError(
            f'channel "{name}" of package "{package.name}" has no bundle "{start}"',
            advice=f"its bundles are: {', '.join(sorted(channel.entries))}",
        )
    return start or channel.heads[0], name


def _supported(installation: Installation, bundle: str, modes: Mapping[str, bool]) -> Installation:
    """The installation with targets that fit the install modes of the bundle.

    Nothing is known where it has no modes, nor of an OperatorGroup that exists.
    """
    if not modes or installation.existing:
        return installation
    if installation.targets is None and installation.makes_namespace and not modes.get(ALL) and modes.get(OWN):
        installation = replace(installation, targets=(installation.namespace,))
    if not modes.get(installation.install_mode):
        supported = ", ".join(sorted(mode for mode, on in modes.items() if on)) or "none"
        raise CatalogError(
            f"{bundle} does not support the install mode {installation.install_mode}",
            advice=f"it supports: {supported}; choose target namespaces and an install namespace that fit",
        )
    return installation


def _spec(csv: bytes) -> JsonValue:
    try:
        spec: JsonValue = json.loads(csv or b"{}")["spec"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return spec


def _install_modes(spec: Any) -> dict[str, bool]:
    """Whether each install mode is supported; empty where the ClusterServiceVersion does not tell."""
    try:
        return {str(one["type"]): one["supported"] is True for one in spec["installModes"]}
    except (KeyError, TypeError):
        return {}
