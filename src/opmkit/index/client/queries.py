"""Questions to a catalog that take several calls, or a look at all answers of one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint, Operation
from opmkit.imagetools.workers import WorkerPool
from opmkit.index.client.errors import CallFailed
from opmkit.index.client.values import Package
from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.index.client.catalog_client import CatalogClient
    from opmkit.index.client.values import Bundle, ChannelEntry

_CALLS_AT_ONCE = 8
_SAID_NO = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Updates:
    """A bundle in a channel with all that it replaces or skips there, by name."""

    package: str
    channel: str
    bundle: str
    replaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProvidedApi:
    """An API with a package that provides it, and the channels where some bundle of it does."""

    api: str
    package: str
    channels: tuple[str, ...]


def packages(registry: CatalogClient) -> list[Package]:
    """All packages with their channels, by name; raises CallFailed."""
    names = sorted(registry.list_packages())
    with WorkerPool(_CALLS_AT_ONCE, "call") as pool:
        return list(pool.map(lambda name: _package(registry, name), names))


def _package(registry: CatalogClient, name: str) -> Package:
    try:
        return registry.get_package(name)
    except CallFailed as error:
        if error.code != _SAID_NO:
            raise
        return Package(name, "", ())  # a package without channels is listed, but not found


def head(registry: CatalogClient, package: str, channel: str) -> Bundle:
    """The whole bundle at the head of a channel; raises CallFailed, and CatalogError for an unknown channel."""
    heads = {one.name: one.head for one in registry.get_package(package).channels}
    if channel not in heads:
        raise CatalogError(
            f'package "{package}" has no channel "{channel}"', hint=f"its channels are: {', '.join(sorted(heads))}"
        )
    return registry.get_bundle(package, channel, heads[channel])


def bundles(registry: CatalogClient, package: str = "", channel: str = "", name: str = "") -> list[Bundle]:
    """The bundles of all channels that have these names, by package, channel and name.

    Raises CallFailed, and CatalogError where names were given that no bundle has.
    """
    wanted = {"package": package, "channel": channel, "name": name}
    asked = {key: value for key, value in wanted.items() if value}
    with registry.list_bundles() as stream:
        found = [one for one in stream if all(getattr(one, key) == value for key, value in asked.items())]
    if asked and not found:
        told = ", ".join(f'{key} "{value}"' for key, value in asked.items())
        raise CatalogError(
            f"the catalog has no bundle of {told}", hint=Hint("list all bundles with {}", Operation.LIST_SERVED_BUNDLES)
        )
    return sorted(found, key=lambda one: (one.package, one.channel, one.name))


def provided_apis(found: Iterable[Bundle]) -> list[ProvidedApi]:
    """The APIs that bundles provide, each once for a package, by name."""
    channels: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for bundle in found:
        for api in bundle.provided_apis:
            channels[str(api), bundle.package].add(bundle.channel)
    return [ProvidedApi(*key, tuple(sorted(names))) for key, names in sorted(channels.items())]


def updates(entries: Iterable[ChannelEntry]) -> list[Updates]:
    """Entries, of which there is one for each edge, as one row for each bundle of a channel, by name."""
    replaced: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    for entry in entries:
        replaced[entry.package, entry.channel, entry.bundle].add(entry.replaces)
    return [Updates(*key, tuple(sorted(names - {""}))) for key, names in sorted(replaced.items())]
