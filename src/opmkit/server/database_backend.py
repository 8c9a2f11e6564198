"""Responses from an index database."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.index.errors import CatalogError
from opmkit.index.grpc_api import message_class
from opmkit.index.sqlite.bundles import split_manifests
from opmkit.index.sqlite.serving import GVK, IndexQueries
from opmkit.server.response_cache import BUNDLE_LIST, content_record, csv_record, prefix_messages
from opmkit.server.settings import QueryFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.index.sqlite.serving import ChannelEntry, ListedBundle, PropertyValue, ServedBundle, ServedDatabase
    from opmkit.server.backend import Reply
    from opmkit.server.response_cache import ResponseCache

    FindPlural = Callable[[str, str, str], str]
    """Returns the plural of an API, given by group, version and kind."""

_CHANNEL, _ENTRY = message_class("Channel"), message_class("ChannelEntry")
_PACKAGE, _PACKAGE_NAME = message_class("Package"), message_class("PackageName")


class DatabaseBackend:
    """Query backend of an index database: small responses are computed at once, large ones are cached on disk.

    Of two connections one is used by the thread that answers, the other to compute records for the cache, by one thread
    at a time.
    """

    def __init__(self, index: IndexQueries, contents: IndexQueries, cache: ResponseCache) -> None:
        """Use two connections to the same database."""
        self._index = index
        self._contents = contents
        self._cache = cache

    @cached_property
    def _package_names(self) -> tuple[bytes, ...]:
        return tuple(_PACKAGE_NAME(name=name).SerializeToString() for name in self._index.packages())

    @cached_property
    def _packages(self) -> dict[str, bytes]:
        messages: dict[str, Any] = {}
        for head in self._index.heads():
            empty = _PACKAGE(name=head.package, defaultChannelName=head.default_channel)
            message = messages.setdefault(head.package, empty)
            message.channels.append(_CHANNEL(name=head.channel, csvName=head.bundle))
        return {name: message.SerializeToString() for name, message in messages.items()}

    @cached_property
    def _heads(self) -> dict[tuple[str, str], int]:
        return {(package, channel): number for package, channel, number in self._index.head_numbers()}

    @classmethod
    @contextmanager
    def open(cls, database: ServedDatabase, cache: ResponseCache) -> Iterator[DatabaseBackend]:
        """Open the database."""
        index, contents = IndexQueries(database), IndexQueries(database)
        try:
            with suppress(CatalogError):  # calls will return the error
                index.create_tables()
            yield cls(index, contents, cache)
        finally:
            index.close()
            contents.close()

    def list_packages(self) -> Reply[tuple[bytes, ...]]:
        """Return a PackageName for each package."""
        return self._package_names

    def get_package(self, name: str) -> Reply[bytes]:
        """Return the Package with this name."""
        if name not in self._packages:
            raise QueryFailed(f"package {name} not found")
        return self._packages[name]

    def get_bundle(self, package: str, channel: str, bundle: str) -> Reply[bytes]:
        """Return a Bundle in a channel."""
        number = self._index.bundle_in_channel(package, channel, bundle)
        if number is None:
            raise QueryFailed(f"no entry found for {package} {channel} {bundle}")
        return self._bundle(package, channel, number)

    def get_bundle_for_channel(self, package: str, channel: str) -> Reply[bytes]:
        """Return the Bundle at the head of a channel, with only its name and ClusterServiceVersion."""
        number = self._heads.get((package, channel))
        if number is None:
            raise QueryFailed(f"no entry found for {package} {channel}")
        return self._cached(csv_record(number), partial(self._head_message, number))

    def get_channel_entries_that_replace(self, bundle: str) -> Reply[Iterable[bytes]]:
        """Return a ChannelEntry for each update edge from a bundle."""
        return _entry_messages(self._index.entries_replacing(bundle), f"no channel entries found that replace {bundle}")

    def get_bundle_that_replaces(self, bundle: str, package: str, channel: str) -> Reply[bytes]:
        """Return the Bundle that a bundle is updated to in a channel, of several the one nearest to the head."""
        number = self._index.replacement(bundle, package, channel)
        if number is None:
            raise QueryFailed(f"no entry found for {package} {channel}")
        return self._bundle(package, channel, number)

    def get_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Reply[Iterable[bytes]]:
        """Return a ChannelEntry for each update edge of each bundle that provides an API."""
        entries = self._index.entries_providing(_api_value(group, version, kind))
        return _entry_messages(entries, f"no channel entries found that provide {group} {version} {kind}")

    def get_latest_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Reply[Iterable[bytes]]:
        """Return the ChannelEntry nearest to the head in each channel that provides an API."""
        entries = self._index.latest_entries_providing(_api_value(group, version, kind))
        return _entry_messages(entries, f"no channel entries found that provide {group} {version} {kind}")

    def get_default_bundle_that_provides(self, group: str, version: str, kind: str) -> Reply[bytes]:
        """Return the Bundle of the first package, by name, that provides an API in its default channel."""
        found = self._index.default_provider(_api_value(group, version, kind))
        if found is None:
            raise QueryFailed(f"no entry found that provides {group} {version} {kind}")
        return self._bundle(*found)

    def list_bundles(self) -> Reply[Iterable[bytes]]:
        """Return a Bundle for each entry of each channel."""
        span = self._cache.find(BUNDLE_LIST)
        return self.compute_bundle_list if span is None else self._cache.read_messages(span)

    def compute_bundle_list(self) -> Iterable[bytes]:
        """Return the list of bundles, which is computed unless a process has already done so."""
        span = self._cache.get_or_write(BUNDLE_LIST, lambda: prefix_messages(self._listed_messages()))
        return self._cache.read_messages(span)

    def _bundle(self, package: str, channel: str, number: int) -> Reply[bytes]:
        prefix = channel_fields(package, channel)
        return self._cached(content_record(number), partial(self._bundle_fields, number), prefix)

    def _cached(self, record: int, compute: Callable[[], bytes], prefix: bytes = b"") -> Reply[bytes]:
        """Return ``prefix`` with the record, or a function that computes it first."""
        span = self._cache.find(record)
        if span is not None:
            return prefix + self._cache.read(span)
        return lambda: prefix + self._cache.read(self._cache.get_or_write(record, lambda: [compute()]))

    def _bundle_fields(self, number: int) -> bytes:
        return bundle_fields(self._contents.bundle(number), self._contents.plural)

    def _head_message(self, number: int) -> bytes:
        return head_message(*self._contents.csv(number))

    def _listed_messages(self) -> Iterator[bytes]:
        fields_by_bundle: dict[int, bytes | None] = {}
        package = ""
        for listed in self._contents.list_bundles():
            if listed.package != package:  # few bundles are in two packages
                fields_by_bundle.clear()
                package = listed.package
            if listed.number not in fields_by_bundle:
                stored = self._contents.bundle(listed.number, omit_manifests=True)
                fields_by_bundle[listed.number] = listed_bundle_fields(stored)
            fields = fields_by_bundle[listed.number]
            if fields is not None:
                yield listed_channel_fields(listed) + fields


def _entry_messages(entries: Iterable[ChannelEntry], error_if_empty: str) -> list[bytes]:
    messages = [
        _ENTRY(
            packageName=entry.package, channelName=entry.channel, bundleName=entry.bundle, replaces=entry.replaces
        ).SerializeToString()
        for entry in entries
    ]
    if not messages:
        raise QueryFailed(error_if_empty)
    return messages


def _api_value(group: str, version: str, kind: str) -> str:
    """Return the value of the property of bundles that provide an API."""
    from opmkit.bundle.model import ApiKey  # slow to import, and needed for few calls
    from opmkit.bundle.properties import gvk_value

    return gvk_value(ApiKey(group, version, kind, "")).value


_BUNDLE, _API = message_class("Bundle"), message_class("GroupVersionKind")
_PROPERTY, _DEPENDENCY = message_class("Property"), message_class("Dependency")
_CSV_KIND = "ClusterServiceVersion"


def head_message(name: str, csv: bytes) -> bytes:
    """Return the message for the head of a channel, which has only its name and ClusterServiceVersion."""
    return _serialize(csvName=name, csvJson=csv.decode(errors="replace"))


def channel_fields(package: str, channel: str) -> bytes:
    """Return the fields for the channel of a bundle."""
    return _serialize(packageName=package, channelName=channel)


def listed_channel_fields(listed: ListedBundle) -> bytes:
    """Return the fields for the channel of a bundle and its update edges there, for the list of bundles."""
    skips = [] if listed.skips is None else sorted(listed.skips.split(","))
    return _serialize(packageName=listed.package, channelName=listed.channel, replaces=listed.replaces, skips=skips)


def bundle_fields(stored: ServedBundle, find_plural: FindPlural) -> bytes:
    """Return the fields of a bundle that do not depend on the channel, for responses with a single bundle.

    Raises:
        QueryFailed: The manifests of the bundle are invalid.
    """
    required = dict.fromkeys(value.value for value in stored.dependencies if value.type == GVK)
    provided = [value.value for value in stored.properties if value.type == GVK]
    return _serialize(
        **_common_fields(stored),
        providedApis=[
            _API(group=g, version=v, kind=k, plural=find_plural(g, v, k)) for g, v, k in _valid_apis(provided)
        ],
        requiredApis=[
            _API(group=g, version=v, kind=k, plural=find_plural(g, v, k)) for g, v, k in _valid_apis(required)
        ],
        dependencies=[_DEPENDENCY(type=kind, value=text) for kind, text in _own_values(stored, stored.dependencies)],
        properties=[_PROPERTY(type=kind, value=text) for kind, text in _own_values(stored, stored.properties)],
    )


def listed_bundle_fields(stored: ServedBundle) -> bytes | None:
    """Return the fields that do not depend on the channel, for the list of bundles; None if it omits the bundle.

    Raises:
        QueryFailed: The manifests of the bundle are invalid.
    """
    if stored.version is None or stored.image is None:
        return None
    dependencies, properties = _pairs(stored.dependencies), _pairs(stored.properties)
    return _serialize(
        **_common_fields(stored),
        providedApis=[_API(group=g, version=v, kind=k) for g, v, k in _leading_apis(properties)],
        requiredApis=[_API(group=g, version=v, kind=k) for g, v, k in _leading_apis(dependencies)],
        dependencies=[_DEPENDENCY(type=kind, value=text) for kind, text in dict.fromkeys(dependencies)],
        properties=[_PROPERTY(type=kind, value=text) for kind, text in dict.fromkeys(properties)],
    )


def _serialize(**fields: Any) -> bytes:
    message: bytes = _BUNDLE(**fields).SerializeToString()
    return message


def _common_fields(stored: ServedBundle) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "csvName": stored.name,
        "bundlePath": stored.image or "",
        "version": stored.version or "",
        "skipRange": stored.skip_range,
    }
    if stored.manifests:
        objects, csv = find_csv(stored.manifests)
        fields |= {"csvJson": csv, "object": objects}
    return fields


def find_csv(documents: bytes) -> tuple[list[str], str]:
    """Return the JSON documents of a bundle, and the first ClusterServiceVersion among them.

    Raises:
        QueryFailed: Invalid JSON, or no ClusterServiceVersion with a name.
    """
    try:
        manifests = split_manifests(documents)
    except (ValueError, RecursionError) as error:
        raise QueryFailed(f"invalid manifests in bundle: {error}") from error
    for text, document in manifests:
        if isinstance(document, dict) and document.get("kind") == _CSV_KIND:
            metadata = document.get("metadata")
            if not isinstance(metadata, dict) or not metadata.get("name"):
                break
            return [text for text, _ in manifests], text
    raise QueryFailed("no csv in bundle")


def _own_values(stored: ServedBundle, values: Iterable[PropertyValue]) -> list[tuple[str, str]]:
    """Return the values, without version and image or with the bundle's; nothing if one of these is NULL."""
    pairs = dict.fromkeys(
        (value.type, value.value)
        for value in values
        if value.version in (None, stored.version or "") and value.image in (None, stored.image or "")
    )
    complete = [(kind, text) for kind, text in pairs if kind is not None and text is not None]
    return complete if len(complete) == len(pairs) else []


def _pairs(values: Iterable[PropertyValue]) -> list[tuple[str, str]]:
    return [(value.type or "", value.value or "") for value in values]


def _valid_apis(values: Iterable[str | None]) -> Iterator[tuple[str, str, str]]:
    """Yield the APIs in valid values."""
    for value in values:
        api = None if value is None else _parse_api(value)
        if api is not None:
            yield api


def _leading_apis(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield the APIs in values up to the first invalid one."""
    for kind, value in pairs:
        if kind == GVK:
            api = _parse_api(value)
            if api is None:
                return
            yield api


def _parse_api(value: str) -> tuple[str, str, str] | None:
    """Return the group, version and kind in a property or dependency, parsed as Go parses JSON into strings."""
    try:
        members = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    if members is None:
        return "", "", ""
    if not isinstance(members, dict):
        return None
    by_name = {name.lower(): member for name, member in members.items() if member is not None}
    group, version, kind = (by_name.get(name, "") for name in ("group", "version", "kind"))
    are_strings = isinstance(group, str) and isinstance(version, str) and isinstance(kind, str)
    return (group, version, kind) if are_strings else None
