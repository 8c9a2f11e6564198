"""The version of an operator that a command installs: of its CSV, or of a directory of package manifests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct

from opmkit.author.run.objects import items, name_of, text
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.hint_terms import BundleSetting
from opmkit.bundle.kinds import CSV_KIND
from opmkit.core.hints import Hint
from opmkit.core.scratch import ScratchDirectory
from opmkit.imagetools.hint_terms import ImageOperation
from opmkit.imagetools.reference import Reference, parse_image_reference
from opmkit.index.convert.database_blobs import database_to_blobs
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.csv_metadata import bundle_objects
from opmkit.index.fbc.model import Catalog
from opmkit.index.operations.initialize.loader import initialize
from opmkit.index.sqlite import open_database, replace_database

if TYPE_CHECKING:
    from opmkit.bundle.model import Bundle
    from opmkit.index.fbc.blobs import Blobs, BundleBlob
    from opmkit.index.fbc.model import Package


class PackageVersion(Struct, frozen=True):
    """A version in a directory of package manifests.

    Attributes:
        blobs: The catalog of the whole directory, with the manifests of all bundles.
        channel: A channel that has the version.
    """

    blobs: Blobs
    operator: OperatorVersion
    channel: str


def load_package_manifests(directory: Path) -> Blobs:
    """Return the catalog of a directory of package manifests: ``*.package.yaml`` and a directory for each version.

    Raises:
        CatalogError: One or more manifests are invalid.
    """
    with ScratchDirectory("opm-packagemanifests-") as scratch:
        path = Path(scratch, "index.db")
        with replace_database(path, durable=False) as database:
            initialize(database, directory)
        with open_database(path) as database:
            return database_to_blobs(database)


def select_version(directory: Path, version: str = "") -> PackageVersion:
    """Return a version of the only package in a directory, by default the head of the default channel.

    Raises:
        CatalogError: There is not exactly one package, or it does not have the version, or no channel does.
    """
    blobs = load_package_manifests(directory)
    packages = Catalog.from_blobs(blobs).packages
    if len(packages) != 1:
        found = f"several packages: {', '.join(sorted(packages))}" if packages else "no package"
        raise CatalogError(f"{directory}: {found}", hint="pass a directory with the package manifest of one package")
    (package,) = packages.values()
    versions = {name: _operator(package.name, bundle) for name, bundle in package.bundles.items()}
    if not version:
        (head,) = package.channels[package.default_channel].heads
        return PackageVersion(blobs, versions[head], package.default_channel)
    found_version = next((operator for operator in versions.values() if operator.version == version), None)
    if found_version is None:
        listed = ", ".join(sorted(operator.version for operator in versions.values()))
        raise CatalogError(
            f"{directory}: version {version} not found: the versions are {listed}",
            hint=Hint("pass one of them with {}", BundleSetting.VERSION),
        )
    return PackageVersion(blobs, found_version, _channel(package, found_version.name))


def _channel(package: Package, name: str) -> str:
    """Return the channel of a bundle: one whose head it is, otherwise the default channel, otherwise any."""
    channels = [channel for channel in package.channels.values() if name in channel.entries]
    if not channels:
        raise CatalogError(
            f"package {package.name}: no channel contains {name}", hint="add it to a channel of the package manifest"
        )
    return min(channels, key=lambda channel: (name not in channel.heads, channel.name != package.default_channel)).name


def _operator(package: str, bundle: BundleBlob) -> OperatorVersion:
    objects = (value for value in bundle_objects(bundle) if isinstance(value, dict))
    csv = next((value for value in objects if value.get("kind") == CSV_KIND), {})
    return OperatorVersion.from_csv(package, csv)


class OperatorVersion(Struct, frozen=True):
    """A version of an operator.

    Attributes:
        package: Name of its package.
        name: Name of its ClusterServiceVersion.
        version: Version in the ClusterServiceVersion, or "" if absent.
        image: Bundle image that the cluster pulls, or "" if the catalog contains the manifests.
        install_modes: Supported install modes.
    """

    package: str
    name: str
    version: str
    image: str = ""
    install_modes: frozenset[str] = frozenset()

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> OperatorVersion:
        """Return the version in a bundle."""
        return cls.from_csv(bundle.package, orjson.loads(bundle.csv.json), bundle.image)

    @classmethod
    def from_csv(cls, package: str, csv: Any, image: str = "") -> OperatorVersion:
        """Return the version that a ClusterServiceVersion describes."""
        modes = {text(mode, "type") for mode in items(csv, "spec", "installModes") if mode.get("supported") is True}
        return cls(package, name_of(csv), text(csv, "spec", "version"), image, frozenset(modes))


def check_bundle(bundle: Bundle) -> None:
    """Raise InvalidBundle for a bundle without a package, or with an image that clusters cannot pull."""
    if not bundle.package:
        raise InvalidBundle(f"{bundle.name}: no package in its annotations", hint="set the package in annotations.yaml")
    if bundle.image and not isinstance(parse_image_reference(bundle.image), Reference):
        raise InvalidBundle(
            f"{bundle.image}: clusters cannot pull it",
            hint=Hint.any_of(
                Hint("copy it to a registry with {}", ImageOperation.COPY_IMAGE),
                "pass the bundle as SOURCE=IMAGE with an image that the cluster can pull",
                "pass the bundle directory",
            ),
        )


def owned_crds(csv: Any) -> list[str]:
    """Return the names of the CRDs that a ClusterServiceVersion owns."""
    owned = items(csv, "spec", "customresourcedefinitions", "owned")
    return list(dict.fromkeys(filter(None, (text(entry, "name") for entry in owned))))


def deployment_names(csv: Any) -> list[str]:
    """Return the names of the Deployments in the install strategy of a ClusterServiceVersion."""
    deployments = items(csv, "spec", "install", "spec", "deployments")
    return list(filter(None, (text(entry, "name") for entry in deployments)))
