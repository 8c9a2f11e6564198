"""Rows of ``list packages``, ``list channels`` and ``list bundles``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.core.json_types import JsonResult
from opmkit.index.suggestions import unknown_packages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.fbc.model import Catalog, Package


@dataclass(frozen=True, slots=True)
class PackageListing(JsonResult):
    """A package of an index with its default channel."""

    name: str
    display_name: str
    default_channel: str


@dataclass(frozen=True, slots=True)
class ChannelListing(JsonResult):
    """A channel of an index with its head."""

    package: str
    channel: str
    head: str


@dataclass(frozen=True, slots=True)
class BundleListing(JsonResult):
    """A bundle in a channel of an index with its update edges. Absent texts are empty."""

    package: str
    channel: str
    bundle: str
    replaces: str
    skips: tuple[str, ...]
    skip_range: str
    image: str


def list_packages(catalog: Catalog) -> list[PackageListing]:
    """Return the packages of a catalog, ordered by name."""
    packages = sorted(catalog.packages.items())
    return [PackageListing(name, package.display_name, package.default_channel) for name, package in packages]


def list_channels(catalog: Catalog, package: str = "") -> list[ChannelListing]:
    """Return the channels of one or all packages, ordered by package and name.

    Raises:
        UnknownPackage: The package does not exist.
    """
    return [
        ChannelListing(selected.name, name, channel.heads[0])
        for selected in _packages(catalog, package)
        for name, channel in sorted(selected.channels.items())
    ]


def list_bundles(catalog: Catalog, package: str = "") -> list[BundleListing]:
    """Return the bundles of one or all packages, ordered by package, channel and name.

    Raises:
        UnknownPackage: The package does not exist.
    """
    return [
        BundleListing(
            selected.name,
            channel_name,
            name,
            entry.replaces,
            entry.skips,
            entry.skip_range,
            selected.bundles[name].image,
        )
        for selected in _packages(catalog, package)
        for channel_name, channel in sorted(selected.channels.items())
        for name, entry in sorted(channel.entries.items())
    ]


def _packages(catalog: Catalog, package: str) -> Iterator[Package]:
    for error in unknown_packages([package], catalog.packages):
        raise error
    for name, value in sorted(catalog.packages.items()):
        if package in ("", name):
            yield value
