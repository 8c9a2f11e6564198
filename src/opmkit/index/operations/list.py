"""What ``list packages``, ``list channels`` and ``list bundles`` show, as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import UnknownPackage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.fbc.model import Catalog, Package


@dataclass(frozen=True, slots=True)
class PackageRow:
    """A package of a catalog."""

    name: str
    display_name: str
    default_channel: str


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """A channel of a package with the name of its head."""

    package: str
    channel: str
    head: str


@dataclass(frozen=True, slots=True)
class BundleRow:
    """A bundle in a channel. Texts that it does not have are empty."""

    package: str
    channel: str
    bundle: str
    replaces: str
    skips: tuple[str, ...]
    skip_range: str
    image: str


def list_packages(catalog: Catalog) -> list[PackageRow]:
    """The packages of a catalog, by name."""
    packages = sorted(catalog.packages.items())
    return [PackageRow(name, package.display_name, package.default_channel) for name, package in packages]


def list_channels(catalog: Catalog, package: str = "") -> list[ChannelRow]:
    """The channels of one package, or of all where none is named, by package and name.

    Raises:
        UnknownPackage: the catalog does not have that package.
    """
    return [
        ChannelRow(chosen.name, name, channel.heads[0])
        for chosen in _chosen(catalog, package)
        for name, channel in sorted(chosen.channels.items())
    ]


def list_bundles(catalog: Catalog, package: str = "") -> list[BundleRow]:
    """The bundles of one package, or of all where none is named, by package, channel and name.

    Raises:
        UnknownPackage: the catalog does not have that package.
    """
    return [
        BundleRow(
            chosen.name,
            channel,
            name,
            entry.replaces,
            entry.skips,
            entry.skip_range,
            chosen.bundles[name].image,
        )
        for chosen in _chosen(catalog, package)
        for channel, value in sorted(chosen.channels.items())
        for name, entry in sorted(value.entries.items())
    ]


def _chosen(catalog: Catalog, package: str) -> Iterator[Package]:
    if package and package not in catalog.packages:
        known = ", ".join(sorted(catalog.packages)) or "none"
        raise UnknownPackage(f'package "{package}" not found', advice=f"The packages of this catalog are: {known}.")
    for name, value in sorted(catalog.packages.items()):
        if package in ("", name):
            yield value
