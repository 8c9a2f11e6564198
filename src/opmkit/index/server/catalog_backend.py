"""The answers of a server from a file-based catalog, by way of its cache."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.api.messages import message_class
from opmkit.index.server.errors import QueryFailed
from opmkit.index.server.json_cache.layout import bundle_file
from opmkit.index.server.length_prefixed import framed
from opmkit.index.server.response_cache import LIST, content_record

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from opmkit.index.server.backend import Reply
    from opmkit.index.server.json_cache.cache import JsonCache
    from opmkit.index.server.length_prefixed import Place
    from opmkit.index.server.response_cache import ResponseCache

_CHANNEL, _ENTRY = message_class("Channel"), message_class("ChannelEntry")
_PACKAGE, _PACKAGE_NAME, _BUNDLE = message_class("Package"), message_class("PackageName"), message_class("Bundle")
_FIELDS = tuple(field.name for field in _BUNDLE.DESCRIPTOR.fields)
_EDGES = ("replaces", "skips")
"""Fields of a bundle that only the list of all bundles has."""
_MANIFESTS = ("csvJson", "object")
"""Fields of a bundle that the list of all bundles has only for bundles without an image."""


class _Entry(NamedTuple):
    """A bundle in a channel; ``record`` is the number of its prepared answer."""

    package: str
    channel: str
    name: str
    replaces: str
    skips: tuple[str, ...]
    record: int


class _Channel(NamedTuple):
    name: str
    head: str
    entries: Mapping[str, _Entry]

    def from_head(self) -> Iterator[_Entry]:
        """Yield the entries: first those that the head replaces, step by step, then the others by name."""
        chain: dict[str, _Entry] = {}
        entry = self.entries.get(self.head)
        while entry is not None and entry.name not in chain:
            chain[entry.name] = entry
            entry = self.entries.get(entry.replaces)
        yield from chain.values()
        yield from (entry for name, entry in self.entries.items() if name not in chain)


def count_entries(cache: JsonCache) -> int:
    """Return how many bundles the channels of a cache have together."""
    channels = (channel for package in cache.packages.values() for channel in package["Channels"].values())
    return sum(len(channel["Bundles"]) for channel in channels)


class CatalogBackend:
    """Answers from the cache of a catalog: names and edges are in memory, bundles in prepared records."""

    def __init__(self, cache: JsonCache, prepared: ResponseCache) -> None:
        """Answer from a cache, with room for its entries in ``prepared``."""
        self._directory = cache.directory
        self._prepared = prepared
        packages = {name: cache.packages[name] for name in sorted(cache.packages)}
        numbers = iter(range(1, count_entries(cache) + 1))
        self._defaults = {name: package["defaultChannel"] for name, package in packages.items()}
        self._channels = {name: _channels(name, package, numbers) for name, package in packages.items()}
        self._messages = {name: _package(package) for name, package in packages.items()}
        self._names = tuple(_PACKAGE_NAME(name=name).SerializeToString() for name in self._messages)

    def list_packages(self) -> Reply[tuple[bytes, ...]]:
        """A PackageName for every package."""
        return self._names

    def get_package(self, name: str) -> Reply[bytes]:
        """The Package of that name."""
        if name not in self._messages:
            raise QueryFailed(f'package "{name}" not found')
        return self._messages[name]

    def get_bundle(self, package: str, channel: str, bundle: str) -> Reply[bytes]:
        """A Bundle as it is in a channel."""
        entry = self._channel(package, channel).entries.get(bundle)
        if entry is None:
            raise QueryFailed(f'package "{package}", channel "{channel}", bundle "{bundle}" not found')
        return self._bundle(entry)

    def get_bundle_for_channel(self, package: str, channel: str) -> Reply[bytes]:
        """The Bundle at the head of a channel."""
        found = self._channel(package, channel)
        return self._bundle(found.entries[found.head])

    def get_channel_entries_that_replace(self, bundle: str) -> Reply[Iterable[bytes]]:
        """A ChannelEntry for every place from where updates lead away from a bundle, with what it replaces there."""
        entries = [
            _edge(entry, entry.replaces)
            for entry in self._entries()
            if bundle == entry.replaces or bundle in entry.skips
        ]
        return _any(entries, f"no channel entries found that replace {bundle}")

    def get_bundle_that_replaces(self, bundle: str, package: str, channel: str) -> Reply[bytes]:
        """The Bundle that a bundle is updated to in a channel: of several the one nearest to the head."""
        if package not in self._channels:
            raise QueryFailed(f"package {package} not found")
        for entry in self._channel(package, channel).from_head():
            if bundle == entry.replaces or bundle in entry.skips:
                return self._bundle(entry)
        raise QueryFailed(f'no entry found for package "{package}", channel "{channel}"')

    def get_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Reply[Iterable[bytes]]:
        """A ChannelEntry for every edge of every bundle that provides an API, wherever the edge leads."""

        def found() -> list[bytes]:
            providers = self._providers(group, version, kind)
            entries = [
                _edge(entry, target)
                for entry in self._entries()
                if _key(entry) in providers
                for target in (entry.replaces, *(skip for skip in entry.skips if skip != entry.replaces))
            ]
            return _any(entries, _no_provider(group, version, kind))

        return found

    def get_latest_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Reply[Iterable[bytes]]:
        """A ChannelEntry for every edge of every head that provides an API, without skips of what isn't there."""

        def found() -> list[bytes]:
            entries = [
                _edge(head, target)
                for channel, head in self._heads(group, version, kind)
                for target in (
                    head.replaces,
                    *(skip for skip in head.skips if skip != head.replaces and skip in channel.entries),
                )
            ]
            return _any(entries, _no_provider(group, version, kind))

        return found

    def get_default_bundle_that_provides(self, group: str, version: str, kind: str) -> Reply[bytes]:
        """The Bundle of the first package by name whose default channel has a head that provides an API."""

        def found() -> bytes:
            heads = self._heads(group, version, kind)
            for channel, head in heads:
                if channel.name == self._defaults[head.package]:
                    return self._prepared.read(self._prepare(head))
            if heads:
                raise QueryFailed(f"no entry found that provides {_quoted(group, version, kind)}")
            raise QueryFailed(_no_provider(group, version, kind))

        return found

    def list_bundles(self) -> Reply[Iterable[bytes]]:
        """A Bundle for each place that one has in a channel."""
        place = self._prepared.find(LIST)
        return self._messages_listed if place is None else self._prepared.messages(place)

    def _channel(self, package: str, channel: str) -> _Channel:
        if package not in self._channels:
            raise QueryFailed(f'package "{package}" not found')
        if channel not in self._channels[package]:
            raise QueryFailed(f'package "{package}", channel "{channel}" not found')
        return self._channels[package][channel]

    def _entries(self) -> Iterator[_Entry]:
        for channels in self._channels.values():
            for channel in channels.values():
                yield from channel.entries.values()

    def _heads(self, group: str, version: str, kind: str) -> list[tuple[_Channel, _Entry]]:
        """Return the heads that provide an API with their channels, by package and channel."""
        providers = self._providers(group, version, kind)
        channels = (channel for all_of in self._channels.values() for channel in all_of.values())
        heads = ((channel, channel.entries[channel.head]) for channel in channels)
        return [(channel, head) for channel, head in heads if _key(head) in providers]

    def _providers(self, group: str, version: str, kind: str) -> Container[tuple[str, str, str]]:
        return self._providers_by_api.get((group, version, kind), ())

    @cached_property
    def _providers_by_api(self) -> dict[tuple[str, str, str], set[tuple[str, str, str]]]:
        """The packages, channels and bundles that provide each API."""
        found: defaultdict[tuple[str, str, str], set[tuple[str, str, str]]] = defaultdict(set)
        for message in self._messages_listed():
            bundle = _BUNDLE.FromString(message)
            for api in bundle.providedApis:
                found[api.group, api.version, api.kind].add((bundle.packageName, bundle.channelName, bundle.csvName))
        return dict(found)

    def _bundle(self, entry: _Entry) -> Reply[bytes]:
        place = self._prepared.find(entry.record)
        if place is not None:
            return self._prepared.read(place)
        return lambda: self._prepared.read(self._prepare(entry))

    def _prepare(self, entry: _Entry) -> Place:
        return self._prepared.prepare(entry.record, lambda: [_message(self._fields(entry), without=_EDGES)])

    def _messages_listed(self) -> Iterator[bytes]:
        return self._prepared.messages(self._prepared.prepare(LIST, lambda: framed(self._listed())))

    def _listed(self) -> Iterator[bytes]:
        for entry in self._entries():
            fields = self._fields(entry)
            yield _message(fields, without=_MANIFESTS if fields.get("bundlePath") else ())

    def _fields(self, entry: _Entry) -> dict[str, Any]:
        """Return the fields of a bundle in the form of JSON; raises StoreError and CatalogError."""
        path = self._directory / bundle_file(*_key(entry))
        with disk_errors(path):
            fields: dict[str, Any] = orjson.loads(path.read_bytes())
        return fields


def _channels(name: str, package: Mapping[str, Any], numbers: Iterator[int]) -> dict[str, _Channel]:
    found = {}
    for channel, content in sorted(package["Channels"].items()):
        entries = {
            bundle: _Entry(
                name, channel, bundle, edges["replaces"], tuple(edges["skips"] or ()), content_record(next(numbers))
            )
            for bundle, edges in sorted(content["Bundles"].items())
        }
        found[channel] = _Channel(channel, content["Head"], entries)
    return found


def _package(package: Mapping[str, Any]) -> bytes:
    message = _PACKAGE(
        name=package["name"], defaultChannelName=package["defaultChannel"], deprecation=package.get("deprecation")
    )
    for name, channel in sorted(package["Channels"].items()):
        message.channels.append(_CHANNEL(name=name, csvName=channel["Head"], deprecation=channel.get("deprecation")))
    serialised: bytes = message.SerializeToString()
    return serialised


def _message(fields: Mapping[str, Any], *, without: Container[str]) -> bytes:
    known = {name: fields[name] for name in _FIELDS if name in fields and name not in without}
    serialised: bytes = _BUNDLE(**known).SerializeToString()
    return serialised


def _key(entry: _Entry) -> tuple[str, str, str]:
    return entry.package, entry.channel, entry.name


def _edge(entry: _Entry, replaces: str) -> bytes:
    message = _ENTRY(packageName=entry.package, channelName=entry.channel, bundleName=entry.name, replaces=replaces)
    serialised: bytes = message.SerializeToString()
    return serialised


def _any(entries: list[bytes], otherwise: str) -> list[bytes]:
    if not entries:
        raise QueryFailed(otherwise)
    return entries


def _no_provider(group: str, version: str, kind: str) -> str:
    return f"no channel entries found that provide {_quoted(group, version, kind)}"


def _quoted(group: str, version: str, kind: str) -> str:
    return f'group:"{group}" version:"{version}" kind:"{kind}"'
