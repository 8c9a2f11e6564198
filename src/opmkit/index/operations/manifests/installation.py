"""The installation of a package from a catalog, and its validation against an index."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from opmkit.bundle.kubernetes_names import dns1123_label, dns1123_subdomain
from opmkit.index.convert.database_blobs import load_catalog
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.display_name import csv_specs
from opmkit.index.fbc.model import Catalog
from opmkit.index.operations.manifests.names import as_label, check_name
from opmkit.index.sqlite.rows import cluster_service_version
from opmkit.index.suggestions import suggest_names, unknown_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.model import Package
    from opmkit.index.sqlite import IndexDatabase

SHARED_NAMESPACES = frozenset({"operators", "openshift-operators"})
"""Namespaces of OLM with an OperatorGroup that targets all namespaces."""

ALL, OWN, SINGLE, MULTI = "AllNamespaces", "OwnNamespace", "SingleNamespace", "MultiNamespace"


@dataclass(frozen=True, slots=True)
class Installation:
    """A package to install in a namespace.

    Creating an instance raises CatalogError for names that the cluster would reject.

    Attributes:
        package: Name of the package.
        namespace: Namespace of the Subscription; by default it is named after the package.
        channel: Name of the channel, or "" for the default channel.
        starting_csv: Name of the first bundle to install, or "" for the head of the channel.
        approval: ``Automatic`` or ``Manual``.
        targets: Namespaces that the operator watches: all for an empty tuple; None for all, or for the own namespace
            if the operator does not support all.
        existing: Whether the namespace exists with its OperatorGroup.
    """

    package: str
    namespace: str = ""
    channel: str = ""
    starting_csv: str = ""
    approval: str = "Automatic"
    targets: tuple[str, ...] | None = None
    existing: bool = False

    def __post_init__(self) -> None:
        """Derive the namespace, and validate the names."""
        object.__setattr__(self, "namespace", self.namespace or as_label(self.package))
        if not as_label(self.package):
            raise CatalogError(
                f"package {self.package!r}: cannot derive the name of an object", hint="check the spelling"
            )
        check_name("install namespace", self.namespace, dns1123_label)
        for target in self.targets or ():
            check_name("target namespace", target, dns1123_label)
        if self.targets and not self.creates_namespace:
            raise CatalogError(
                f"namespace {self.namespace!r}: target namespaces unsupported: its OperatorGroup already exists",
                hint="omit them, or install in another namespace",
            )
        if self.starting_csv:
            check_name("starting CSV", self.starting_csv, dns1123_subdomain)

    @property
    def creates_namespace(self) -> bool:
        """Whether the namespace and its OperatorGroup are created."""
        return not self.existing and self.namespace not in SHARED_NAMESPACES

    @property
    def install_mode(self) -> str:
        """The install mode that the operator must support."""
        targets = self.targets or ()
        if len(targets) > 1:
            return MULTI
        return ALL if not targets else OWN if targets == (self.namespace,) else SINGLE


def resolve_in_database(installation: Installation, database: IndexDatabase) -> Installation:
    """Set the channel and targets of an installation from an index database.

    Raises:
        UnknownPackage: The package does not exist.
        CatalogError: The channel or starting CSV does not exist, or the operator does not support the targets.
    """

    def install_modes(_: Package, bundle: str) -> Mapping[str, bool]:
        return read_install_modes(_spec(cluster_service_version(database, bundle)))

    return _resolve(installation, load_catalog(database), install_modes)


def resolve_in_catalog(installation: Installation, blobs: Blobs) -> Installation:
    """Set the channel and targets of an installation from a file-based catalog.

    Raises:
        InvalidCatalog: The catalog is invalid.
        CatalogError: See `resolve_in_database`.
    """

    def install_modes(package: Package, bundle: str) -> Mapping[str, bool]:
        return next(filter(None, map(read_install_modes, csv_specs(package.bundles[bundle]))), {})

    return _resolve(installation, Catalog.from_blobs(blobs), install_modes)


def _resolve(
    installation: Installation, catalog: Catalog, install_modes: Callable[[Package, str], Mapping[str, bool]]
) -> Installation:
    for error in unknown_packages([installation.package], catalog.packages):
        raise error
    package = catalog.packages[installation.package]
    bundle, channel = _first_bundle(installation, package)
    return _select_targets(replace(installation, channel=channel), bundle, install_modes(package, bundle))


def _first_bundle(installation: Installation, package: Package) -> tuple[str, str]:
    """Return the bundle that is installed first, and its channel."""
    name = installation.channel or package.default_channel
    channel = package.channels.get(name)
    if channel is None:
        raise CatalogError(
            f'package "{package.name}": channel "{name}" not found',
            hint=suggest_names("channels", name, list(package.channels)),
        )
    start = installation.starting_csv
    if start and start not in channel.entries:
        raise CatalogError(
            f'channel "{name}" of package "{package.name}": bundle "{start}" not found',
            hint=suggest_names("bundles", start, sorted(channel.entries)),
        )
    return start or channel.heads[0], name


def _select_targets(installation: Installation, bundle: str, modes: Mapping[str, bool]) -> Installation:
    """Return the installation with targets that the install modes of the bundle support.

    Without install modes, or with an existing OperatorGroup, the installation is not checked.
    """
    if not modes or installation.existing:
        return installation
    if installation.targets is None and installation.creates_namespace and not modes.get(ALL) and modes.get(OWN):
        installation = replace(installation, targets=(installation.namespace,))
    if not modes.get(installation.install_mode):
        supported = ", ".join(sorted(mode for mode, is_supported in modes.items() if is_supported)) or "none"
        raise CatalogError(
            f"{bundle}: unsupported install mode {installation.install_mode}",
            hint=f"choose target and install namespaces for one of its modes: {supported}",
        )
    return installation


def _spec(csv: bytes) -> JsonValue:
    try:
        spec: JsonValue = json.loads(csv or b"{}")["spec"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return spec


def read_install_modes(spec: Any) -> dict[str, bool]:
    """Return whether each install mode is supported, nothing if the ClusterServiceVersion does not declare them."""
    try:
        return {str(mode["type"]): mode["supported"] is True for mode in spec["installModes"]}
    except (KeyError, TypeError):
        return {}
