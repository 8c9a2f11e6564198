"""Responses from an index database."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from opmkit.index.errors import CatalogError
from opmkit.index.grpc_api import message_class
from opmkit.index.sqlite.serving import IndexQueries
from opmkit.server.bundle_messages import (
    bundle_fields,
    channel_fields,
    head_message,
    listed_bundle_fields,
    listed_channel_fields,
)
from opmkit.server.errors import QueryFailed
from opmkit.server.length_prefixed import prefix_messages
from opmkit.server.response_cache import BUNDLE_LIST, content_record, csv_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.index.sqlite.serving import ChannelEntry, ServedDatabase
    from opmkit.server.backend import Reply
    from opmkit.server.response_cache import ResponseCache

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
