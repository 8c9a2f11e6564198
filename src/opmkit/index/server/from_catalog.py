"""The answers of a server from a file-based catalog, by way of its cache."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.index.api import message_class
from opmkit.index.catalog.blobs import EntryBlob
from opmkit.index.server.catalogplaces import place
from opmkit.index.server.errors import Unanswerable
from opmkit.index.server.records import Place, read_messages, read_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.index.server.answers import Answer
    from opmkit.index.server.catalogcache import CatalogCache

_CHANNEL, _ENTRY, _DEPRECATION = message_class("Channel"), message_class("ChannelEntry"), message_class("Deprecation")
_PACKAGE, _PACKAGE_NAME = message_class("Package"), message_class("PackageName")


@dataclass(frozen=True, slots=True)
class _Channel:
    name: str
    head: str
    entries: Mapping[str, EntryBlob]

    def from_head(self) -> Iterator[EntryBlob]:
        """The entries: first those that the head replaces, step by step, then the others by name."""
        chain: dict[str, EntryBlob] = {}
        entry = self.entries.get(self.head)
        while entry is not None and entry.name not in chain:
            chain[entry.name] = entry
            entry = self.entries.get(entry.replaces)
        yield from chain.values()
        yield from (entry for name, entry in self.entries.items() if name not in chain)


class CatalogAnswers:
    """Answers from the cache of a catalog: names and edges are in memory, bundles are read by their offsets."""

    def __init__(self, index: Mapping[str, Any], descriptor: int) -> None:
        """Answer from the index of a cache, and the open file with its records."""
        self._descriptor = descriptor
        self._records: Mapping[str, Mapping[str, list[list[int]]]] = index["bundles"]
        self._list = Place(*index["list"])
        self._apis = {tuple(api): providers for *api, providers in index["apis"]}
        self._defaults = {package["name"]: package["default"] for package in index["packages"]}
        self._channels = {package["name"]: _channels(package) for package in index["packages"]}
        self._messages = {package["name"]: _package(package) for package in index["packages"]}
        self._names = tuple(_PACKAGE_NAME(name=name).SerializeToString() for name in self._messages)

    @classmethod
    @contextmanager
    def open(cls, cache: CatalogCache) -> Iterator[CatalogAnswers]:
        """Open the file with the records."""
        with cache.records.open("rb") as file:
            yield cls(cache.index, file.fileno())

    def list_packages(self) -> Answer[tuple[bytes, ...]]:
        """A PackageName for every package."""
        return self._names

    def get_package(self, name: str) -> Answer[bytes]:
        """The Package of that name."""
        if name not in self._messages:
            raise Unanswerable(f'package "{name}" not found')
        return self._messages[name]

    def get_bundle(self, package: str, channel: str, bundle: str) -> Answer[bytes]:
        """A Bundle as it is in a channel."""
        entry = self._channel(package, channel).entries.get(bundle)
        if entry is None:
            raise Unanswerable(f'package "{package}", channel "{channel}", bundle "{bundle}" not found')
        return self._bundle(package, channel, entry)

    def get_bundle_for_channel(self, package: str, channel: str) -> Answer[bytes]:
        """The Bundle at the head of a channel."""
        found = self._channel(package, channel)
        return self._bundle(package, channel, found.entries[found.head])

    def get_channel_entries_that_replace(self, bundle: str) -> Answer[Iterable[bytes]]:
        """A ChannelEntry for every place from where updates lead away from a bundle, with what it replaces there."""
        entries = [
            _edge(package, channel, entry, entry.replaces)
            for package, channel, entry in self._places()
            if bundle == entry.replaces or bundle in entry.skips
        ]
        return _any(entries, f"no channel entries found that replace {bundle}")

    def get_bundle_that_replaces(self, bundle: str, package: str, channel: str) -> Answer[bytes]:
        """The Bundle that a bundle is updated to in a channel: of several the one nearest to the head."""
        if package not in self._channels:
            raise Unanswerable(f"package {package} not found")
        for entry in self._channel(package, channel).from_head():
            if bundle == entry.replaces or bundle in entry.skips:
                return self._bundle(package, channel, entry)
        raise Unanswerable(f'no entry found for package "{package}", channel "{channel}"')

    def get_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Answer[Iterable[bytes]]:
        """A ChannelEntry for every edge of every bundle that provides an API, wherever the edge leads."""
        providers = self._providers(group, version, kind)
        entries = [
            _edge(package, channel, entry, target)
            for package, channel, entry in self._places()
            if (package, entry.name) in providers
            for target in (entry.replaces, *(skip for skip in entry.skips if skip != entry.replaces))
        ]
        return _any(entries, _no_provider(group, version, kind))

    def get_latest_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Answer[Iterable[bytes]]:
        """A ChannelEntry for every edge of every head that provides an API, without skips of what isn't there."""
        entries = [
            _edge(package, channel.name, head, target)
            for package, channel, head in self._heads(group, version, kind)
            for target in (
                head.replaces,
                *(skip for skip in head.skips if skip != head.replaces and skip in channel.entries),
            )
        ]
        return _any(entries, _no_provider(group, version, kind))

    def get_default_bundle_that_provides(self, group: str, version: str, kind: str) -> Answer[bytes]:
        """The Bundle of the first package by name whose default channel has a head that provides an API."""
        heads = self._heads(group, version, kind)
        for package, channel, head in heads:
            if channel.name == self._defaults[package]:
                return self._bundle(package, channel.name, head)
        if heads:
            raise Unanswerable(f"no entry found that provides {_quoted(group, version, kind)}")
        raise Unanswerable(_no_provider(group, version, kind))

    def list_bundles(self) -> Answer[Iterable[bytes]]:
        """A Bundle for each place that one has in a channel."""
        return read_messages(self._descriptor, self._list)

    def _channel(self, package: str, channel: str) -> _Channel:
        if package not in self._channels:
            raise Unanswerable(f'package "{package}" not found')
        if channel not in self._channels[package]:
            raise Unanswerable(f'package "{package}", channel "{channel}" not found')
        return self._channels[package][channel]

    def _places(self) -> Iterator[tuple[str, str, EntryBlob]]:
        for package, channels in self._channels.items():
            for channel in channels.values():
                for entry in channel.entries.values():
                    yield package, channel.name, entry

    def _heads(self, group: str, version: str, kind: str) -> list[tuple[str, _Channel, EntryBlob]]:
        """The heads that provide an API, by package and channel."""
        providers = self._providers(group, version, kind)
        channels = ((package, channel) for package, all_of in self._channels.items() for channel in all_of.values())
        return [
            (package, channel, channel.entries[channel.head])
            for package, channel in channels
            if (package, channel.head) in providers
        ]

    def _providers(self, group: str, version: str, kind: str) -> set[tuple[str, str]]:
        return {(package, bundle) for package, bundle in self._apis.get((group, version, kind), ())}

    def _bundle(self, package: str, channel: str, entry: EntryBlob) -> bytes:
        places = (Place(*found) for found in self._records[package][entry.name])
        head = place(package, channel, entry, edges=False)
        return head + b"".join(read_record(self._descriptor, place) for place in places)


def _channels(package: Mapping[str, Any]) -> dict[str, _Channel]:
    found = {}
    for channel in package["channels"]:
        entries = (
            EntryBlob(name, replaces, tuple(skips), skip_range)
            for name, replaces, skips, skip_range in channel["entries"]
        )
        found[channel["name"]] = _Channel(channel["name"], channel["head"], {entry.name: entry for entry in entries})
    return found


def _package(package: Mapping[str, Any]) -> bytes:
    message = _PACKAGE(
        name=package["name"], defaultChannelName=package["default"], deprecation=_deprecation(package["deprecation"])
    )
    for channel in package["channels"]:
        message.channels.append(
            _CHANNEL(name=channel["name"], csvName=channel["head"], deprecation=_deprecation(channel["deprecation"]))
        )
    serialised: bytes = message.SerializeToString()
    return serialised


def _deprecation(message: str | None) -> Any:
    return None if message is None else _DEPRECATION(message=message)


def _edge(package: str, channel: str, entry: EntryBlob, replaces: str) -> bytes:
    message = _ENTRY(packageName=package, channelName=channel, bundleName=entry.name, replaces=replaces)
    serialised: bytes = message.SerializeToString()
    return serialised


def _any(entries: list[bytes], otherwise: str) -> list[bytes]:
    if not entries:
        raise Unanswerable(otherwise)
    return entries


def _no_provider(group: str, version: str, kind: str) -> str:
    return f"no channel entries found that provide {_quoted(group, version, kind)}"


def _quoted(group: str, version: str, kind: str) -> str:
    return f'group:"{group}" version:"{version}" kind:"{kind}"'
