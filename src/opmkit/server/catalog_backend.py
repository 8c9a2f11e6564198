"""Responses from the cache of a file-based catalog."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from opmkit.core.files import disk_errors
from opmkit.index.grpc_api import STRUCT, message_class
from opmkit.server.json_cache.digest import METAS, SCHEMA_NAME
from opmkit.server.response_cache import BUNDLE_LIST, content_record, prefix_messages
from opmkit.server.settings import InvalidQuery, QueryFailed

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping
    from pathlib import Path

    from opmkit.server.backend import Reply
    from opmkit.server.json_cache.cache import JsonCache
    from opmkit.server.response_cache import ResponseCache, Span


_CHANNEL, _ENTRY = message_class("Channel"), message_class("ChannelEntry")
_PACKAGE, _PACKAGE_NAME, _BUNDLE = message_class("Package"), message_class("PackageName"), message_class("Bundle")
_FIELDS = tuple(field.name for field in _BUNDLE.DESCRIPTOR.fields)
_EDGE_FIELDS = ("replaces", "skips")
"""Fields of a bundle that only the list of bundles has."""
_MANIFEST_FIELDS = ("csvJson", "object")
"""Fields of a bundle that the list of bundles has only for bundles without an image."""


class _Entry(NamedTuple):
    """A bundle in a channel; ``record`` is the number of its response in the cache."""

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
        """Yield the entries: first the chain of replacements from the head, then the others by name."""
        chain: dict[str, _Entry] = {}
        entry = self.entries.get(self.head)
        while entry is not None and entry.name not in chain:
            chain[entry.name] = entry
            entry = self.entries.get(entry.replaces)
        yield from chain.values()
        yield from (entry for name, entry in self.entries.items() if name not in chain)


def count_records(cache: JsonCache) -> int:
    """Return the number of records for the responses of a backend: entries of channels, and custom schemas."""
    return _count_entries(cache) + len(custom_schemas(cache.directory))


def _count_entries(cache: JsonCache) -> int:
    """Return the number of entries of all channels in a cache."""
    channels = (channel for package in cache.packages.values() for channel in package["Channels"].values())
    return sum(len(channel["Bundles"]) for channel in channels)


class CatalogBackend:
    """Query backend of a file-based catalog: names and edges are in memory, bundles in the response cache."""

    def __init__(self, json_cache: JsonCache, responses: ResponseCache) -> None:
        """Use the cache of a catalog; ``responses`` must have room for `count_records`."""
        self._cache = json_cache
        self._responses = responses
        packages = {name: json_cache.packages[name] for name in sorted(json_cache.packages)}
        numbers = iter(range(1, _count_entries(json_cache) + 1))
        self._default_channels = {name: package["defaultChannel"] for name, package in packages.items()}
        self._channels = {name: _channels(name, package, numbers) for name, package in packages.items()}
        self._packages = {name: _package_message(package) for name, package in packages.items()}
        first = _count_entries(json_cache) + 1
        schemas = sorted(custom_schemas(json_cache.directory))
        self._custom_schemas = {key: content_record(number) for number, key in enumerate(schemas, first)}
        self._package_names = tuple(_PACKAGE_NAME(name=name).SerializeToString() for name in self._packages)

    def list_packages(self) -> Reply[tuple[bytes, ...]]:
        """Return a PackageName for each package."""
        return self._package_names

    def get_package(self, name: str) -> Reply[bytes]:
        """Return the Package with this name."""
        if name not in self._packages:
            raise QueryFailed(f'package "{name}" not found')
        return self._packages[name]

    def get_bundle(self, package: str, channel: str, bundle: str) -> Reply[bytes]:
        """Return a Bundle in a channel."""
        entry = self._channel(package, channel).entries.get(bundle)
        if entry is None:
            raise QueryFailed(f'package "{package}", channel "{channel}", bundle "{bundle}" not found')
        return self._bundle(entry)

    def get_bundle_for_channel(self, package: str, channel: str) -> Reply[bytes]:
        """Return the Bundle at the head of a channel."""
        found = self._channel(package, channel)
        return self._bundle(found.entries[found.head])

    def get_channel_entries_that_replace(self, bundle: str) -> Reply[Iterable[bytes]]:
        """Return a ChannelEntry for each entry that replaces or skips a bundle, with what it replaces."""
        messages = [
            _entry_message(entry, entry.replaces)
            for entry in self._entries()
            if bundle == entry.replaces or bundle in entry.skips
        ]
        return _require_any(messages, f"no channel entries found that replace {bundle}")

    def get_bundle_that_replaces(self, bundle: str, package: str, channel: str) -> Reply[bytes]:
        """Return the Bundle that a bundle is updated to in a channel, of several the one nearest to the head."""
        if package not in self._channels:
            raise QueryFailed(f"package {package} not found")
        for entry in self._channel(package, channel).from_head():
            if bundle == entry.replaces or bundle in entry.skips:
                return self._bundle(entry)
        raise QueryFailed(f'no entry found for package "{package}", channel "{channel}"')

    def get_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Reply[Iterable[bytes]]:
        """Return a ChannelEntry for each update edge of each bundle that provides an API."""

        def compute() -> list[bytes]:
            providers = self._providers(group, version, kind)
            messages = [
                _entry_message(entry, target)
                for entry in self._entries()
                if _key(entry) in providers
                for target in (entry.replaces, *(skip for skip in entry.skips if skip != entry.replaces))
            ]
            return _require_any(messages, _no_provider(group, version, kind))

        return compute

    def get_latest_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Reply[Iterable[bytes]]:
        """Return a ChannelEntry for each update edge of each head that provides an API.

        Skips of bundles that the channel does not contain are omitted.
        """

        def compute() -> list[bytes]:
            messages = [
                _entry_message(head, target)
                for channel, head in self._heads(group, version, kind)
                for target in (
                    head.replaces,
                    *(skip for skip in head.skips if skip != head.replaces and skip in channel.entries),
                )
            ]
            return _require_any(messages, _no_provider(group, version, kind))

        return compute

    def get_default_bundle_that_provides(self, group: str, version: str, kind: str) -> Reply[bytes]:
        """Return the Bundle of the first package, by name, whose default channel has a head that provides an API."""

        def compute() -> bytes:
            heads = self._heads(group, version, kind)
            for channel, head in heads:
                if channel.name == self._default_channels[head.package]:
                    return self._responses.read(self._compute_bundle(head))
            if heads:
                raise QueryFailed(f"no entry found that provides {_format_api(group, version, kind)}")
            raise QueryFailed(_no_provider(group, version, kind))

        return compute

    def list_bundles(self) -> Reply[Iterable[bytes]]:
        """Return a Bundle for each entry of each channel."""
        span = self._responses.find(BUNDLE_LIST)
        return self._compute_bundle_list if span is None else self._responses.read_messages(span)

    def experimental_list_package_custom_schemas(self, schema: str, package: str) -> Reply[Iterable[bytes]]:
        """Return a Struct for each document of a schema in a package, or without a package if its name is empty."""
        check_custom_schema(schema, package)
        record = self._custom_schemas.get((schema, package))
        if record is None:
            return ()
        span = self._responses.find(record)
        if span is not None:
            return self._responses.read_messages(span)

        def compute() -> Iterator[bytes]:
            messages = custom_documents(self._cache.directory, schema, package)
            return self._responses.read_messages(
                self._responses.get_or_write(record, lambda: prefix_messages(messages))
            )

        return compute

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
        """Return the channels whose heads provide an API, with the heads, by package and channel."""
        providers = self._providers(group, version, kind)
        all_channels = (channel for channels in self._channels.values() for channel in channels.values())
        heads = ((channel, channel.entries[channel.head]) for channel in all_channels)
        return [(channel, head) for channel, head in heads if _key(head) in providers]

    def _providers(self, group: str, version: str, kind: str) -> Container[tuple[str, str, str]]:
        return self._providers_by_api.get((group, version, kind), ())

    @cached_property
    def _providers_by_api(self) -> dict[tuple[str, str, str], set[tuple[str, str, str]]]:
        """The keys of the entries that provide each API."""
        providers: defaultdict[tuple[str, str, str], set[tuple[str, str, str]]] = defaultdict(set)
        for message in self._compute_bundle_list():
            bundle = _BUNDLE.FromString(message)
            for api in bundle.providedApis:
                key = (bundle.packageName, bundle.channelName, bundle.csvName)
                providers[api.group, api.version, api.kind].add(key)
        return dict(providers)

    def _bundle(self, entry: _Entry) -> Reply[bytes]:
        span = self._responses.find(entry.record)
        if span is not None:
            return self._responses.read(span)
        return lambda: self._responses.read(self._compute_bundle(entry))

    def _compute_bundle(self, entry: _Entry) -> Span:
        return self._responses.get_or_write(
            entry.record, lambda: [_bundle_message(self._read_fields(entry), omit=_EDGE_FIELDS)]
        )

    def _compute_bundle_list(self) -> Iterator[bytes]:
        span = self._responses.get_or_write(BUNDLE_LIST, lambda: prefix_messages(self._listed_messages()))
        return self._responses.read_messages(span)

    def _listed_messages(self) -> Iterator[bytes]:
        for entry in self._entries():
            fields = self._read_fields(entry)
            yield _bundle_message(fields, omit=_MANIFEST_FIELDS if fields.get("bundlePath") else ())

    def _read_fields(self, entry: _Entry) -> dict[str, Any]:
        """Return the fields of a bundle in the form of JSON; raises DiskError and CatalogError."""
        fields: dict[str, Any] = orjson.loads(self._cache.read_bundle(*_key(entry)))
        return fields


def _channels(name: str, package: Mapping[str, Any], numbers: Iterator[int]) -> dict[str, _Channel]:
    channels = {}
    for channel, content in sorted(package["Channels"].items()):
        entries = {
            bundle: _Entry(
                name, channel, bundle, edges["replaces"], tuple(edges["skips"] or ()), content_record(next(numbers))
            )
            for bundle, edges in sorted(content["Bundles"].items())
        }
        channels[channel] = _Channel(channel, content["Head"], entries)
    return channels


def _package_message(package: Mapping[str, Any]) -> bytes:
    message = _PACKAGE(
        name=package["name"], defaultChannelName=package["defaultChannel"], deprecation=package.get("deprecation")
    )
    for name, channel in sorted(package["Channels"].items()):
        message.channels.append(_CHANNEL(name=name, csvName=channel["Head"], deprecation=channel.get("deprecation")))
    serialized: bytes = message.SerializeToString()
    return serialized


def _bundle_message(fields: Mapping[str, Any], *, omit: Container[str]) -> bytes:
    known = {name: fields[name] for name in _FIELDS if name in fields and name not in omit}
    serialized: bytes = _BUNDLE(**known).SerializeToString()
    return serialized


def _entry_message(entry: _Entry, replaces: str) -> bytes:
    message = _ENTRY(packageName=entry.package, channelName=entry.channel, bundleName=entry.name, replaces=replaces)
    serialized: bytes = message.SerializeToString()
    return serialized


def _key(entry: _Entry) -> tuple[str, str, str]:
    return entry.package, entry.channel, entry.name


def _require_any(messages: list[bytes], error_if_empty: str) -> list[bytes]:
    if not messages:
        raise QueryFailed(error_if_empty)
    return messages


def _no_provider(group: str, version: str, kind: str) -> str:
    return f"no channel entries found that provide {_format_api(group, version, kind)}"


def _format_api(group: str, version: str, kind: str) -> str:
    return f'group:"{group}" version:"{version}" kind:"{kind}"'


_STRUCT = message_class(STRUCT)
_SUFFIX = ".json"


def check_custom_schema(schema: str, package: str) -> None:
    """Raise InvalidQuery, with the messages of operator-registry, unless both are valid; a package may be empty."""
    if not schema:
        raise InvalidQuery("schema is required")
    for name, value in (("schema", schema), ("packageName", package)):
        if value and not SCHEMA_NAME.fullmatch(value):
            quoted = json.dumps(value, ensure_ascii=False)
            pattern = f"^{SCHEMA_NAME.pattern}$"
            raise InvalidQuery(f"invalid custom schema query: invalid {name} {quoted}: must match {pattern}")


def custom_schemas(content: Path) -> set[tuple[str, str]]:
    """Return the pairs of schema and package that have documents; the package is "" for those without one.

    Raises:
        DiskError: The cache cannot be read.
    """
    metas = content / METAS
    found: set[tuple[str, str]] = set()
    with disk_errors(metas):
        for schema in metas.iterdir() if metas.is_dir() else ():
            for entry in os.scandir(schema):
                found.add((schema.name, entry.name if entry.is_dir() else ""))
    return found


def custom_documents(content: Path, schema: str, package: str) -> Iterator[bytes]:
    """Yield a Struct for each document of a schema in a package, ordered as by operator-registry: by file name.

    Raises:
        QueryFailed: A document cannot be converted.
        DiskError: The cache cannot be read.
    """
    directory = content / METAS / schema / package
    with disk_errors(directory):
        paths = sorted(path for path in directory.iterdir() if path.suffix == _SUFFIX and path.is_file())
    for path in paths:
        with disk_errors(path):
            raw = path.read_bytes()
        message = _STRUCT()
        try:
            message.update(orjson.loads(raw))
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise QueryFailed(
                f"schema {schema}: document {path.name}: not convertible to a message: {error}"
            ) from error
        serialized: bytes = message.SerializeToString(deterministic=True)
        yield serialized
