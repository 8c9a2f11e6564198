"""Queries to a running catalog that combine several calls or filter a stream."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.client.errors import CallFailed
from opmkit.client.values import RemotePackage
from opmkit.core.hints import Hint
from opmkit.core.workers import WorkerPool
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexOperation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.client.catalog_client import CatalogClient
    from opmkit.client.values import RemoteBundle, RemoteEntry

_MAX_PARALLEL_CALLS = 8
_NOT_FOUND = "UNKNOWN"
"""The status code of servers for names that the catalog does not contain."""


@dataclass(frozen=True, slots=True)
class BundleUpdates:
    """A bundle in a channel with the names of all bundles that it replaces or skips there."""

    package: str
    channel: str
    bundle: str
    replaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProvidedApi:
    """An API, a package that provides it, and the channels of the package with bundles that do."""

    api: str
    package: str
    channels: tuple[str, ...]


def fetch_packages(client: CatalogClient) -> list[RemotePackage]:
    """Return all packages with their channels, sorted by name; raises CallFailed."""
    names = sorted(client.list_packages())
    with WorkerPool(_MAX_PARALLEL_CALLS, "call") as pool:
        return list(pool.map(lambda name: _fetch_package(client, name), names))


def _fetch_package(client: CatalogClient, name: str) -> RemotePackage:
    try:
        return client.get_package(name)
    except CallFailed as error:
        if error.code != _NOT_FOUND:
            raise
        return RemotePackage(name, "", ())  # servers list packages without channels, but do not find them


def fetch_head(client: CatalogClient, package: str, channel: str) -> RemoteBundle:
    """Return the complete bundle at the head of a channel.

    Raises:
        CallFailed: The package does not exist, or the server does not respond.
        CatalogError: The package does not have the channel.
    """
    heads = {each.name: each.head for each in client.get_package(package).channels}
    if channel not in heads:
        raise CatalogError(
            f'package "{package}": channel "{channel}" not found',
            hint=f"use one of its channels: {', '.join(sorted(heads))}",
        )
    return client.get_bundle(package, channel, heads[channel])


def fetch_bundles(client: CatalogClient, package: str = "", channel: str = "", name: str = "") -> list[RemoteBundle]:
    """Return the bundles of all channels, or those with the given names, sorted by package, channel and name.

    Raises:
        CallFailed: The server does not respond.
        CatalogError: Names were given, and no bundle has them.
    """
    names = {"package": package, "channel": channel, "name": name}
    given = {field: value for field, value in names.items() if value}
    with client.list_bundles() as stream:
        found = [bundle for bundle in stream if all(getattr(bundle, key) == value for key, value in given.items())]
    if given and not found:
        criteria = ", ".join(f'{field} "{value}"' for field, value in given.items())
        hint = Hint("list all bundles with {}", IndexOperation.LIST_SERVED_BUNDLES)
        raise CatalogError(f"no bundle found with {criteria}", hint=hint)
    return sorted(found, key=lambda bundle: (bundle.package, bundle.channel, bundle.name))


def provided_apis(bundles: Iterable[RemoteBundle]) -> list[ProvidedApi]:
    """Return the APIs that bundles provide, one for each package, sorted by API and package."""
    channels: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for bundle in bundles:
        for api in bundle.provided_apis:
            channels[str(api), bundle.package].add(bundle.channel)
    return [ProvidedApi(*key, tuple(sorted(names))) for key, names in sorted(channels.items())]


def group_updates(entries: Iterable[RemoteEntry]) -> list[BundleUpdates]:
    """Group entries, which are one for each update edge, by package, channel and bundle."""
    replaced: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    for entry in entries:
        replaced[entry.package, entry.channel, entry.bundle].add(entry.replaces)
    return [BundleUpdates(*key, tuple(sorted(names - {""}))) for key, names in sorted(replaced.items())]
