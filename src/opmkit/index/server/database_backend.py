"""The answers of a server from an index database."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from opmkit.index.api.messages import message_class
from opmkit.index.errors import CatalogError
from opmkit.index.server import bundle_messages as bundles
from opmkit.index.server.errors import QueryFailed
from opmkit.index.server.length_prefixed import framed
from opmkit.index.server.response_cache import LIST, content_record, csv_record
from opmkit.index.sqlite.serving import IndexQueries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.index.server.backend import Reply
    from opmkit.index.server.response_cache import ResponseCache
    from opmkit.index.sqlite.serving import ChannelEntry, ServedDatabase

_CHANNEL, _ENTRY = message_class("Channel"), message_class("ChannelEntry")
_PACKAGE, _PACKAGE_NAME = message_class("Package"), message_class("PackageName")


class DatabaseBackend:
    """Answers from an index database: what is small at once, what is large by way of the prepared records.

    There are two connections: one for the thread that answers, and one to make records, of which a process makes one
    at a time, in whatever thread.
    """

    def __init__(self, index: IndexQueries, contents: IndexQueries, prepared: ResponseCache) -> None:
        """Answer from two connections to the same database."""
        self._index = index
        self._contents = contents
        self._prepared = prepared

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
    def open(cls, database: ServedDatabase, prepared: ResponseCache) -> Iterator[DatabaseBackend]:
        """Open the database."""
        index, contents = IndexQueries(database), IndexQueries(database)
        try:
            with suppress(CatalogError):  # which every call that it concerns will tell
                index.create_tables()
            yield cls(index, contents, prepared)
        finally:
            index.close()
            contents.close()

    def list_packages(self) -> Reply[tuple[bytes, ...]]:
        """A PackageName for every package."""
        return self._package_names

    def get_package(self, name: str) -> Reply[bytes]:
        """The Package of that name."""
        if name not in self._packages:
            raise QueryFailed(f"package {name} not found")
        return self._packages[name]

    def get_bundle(self, package: str, channel: str, bundle: str) -> Reply[bytes]:
        """A Bundle as it is in a channel."""
        number = self._index.bundle_in_channel(package, channel, bundle)
        if number is None:
            raise QueryFailed(f"no entry found for {package} {channel} {bundle}")
        return self._bundle(package, channel, number)

    def get_bundle_for_channel(self, package: str, channel: str) -> Reply[bytes]:
        """The Bundle at the head of a channel: its name and its ClusterServiceVersion."""
        number = self._heads.get((package, channel))
        if number is None:
            raise QueryFailed(f"no entry found for {package} {channel}")
        return self._recorded(csv_record(number), partial(self._csv, number))

    def get_channel_entries_that_replace(self, bundle: str) -> Reply[Iterable[bytes]]:
        """A ChannelEntry for every place from where updates lead away from a bundle."""
        return _entries(self._index.entries_replacing(bundle), f"no channel entries found that replace {bundle}")

    def get_bundle_that_replaces(self, bundle: str, package: str, channel: str) -> Reply[bytes]:
        """The Bundle that a bundle is updated to in a channel: of several the one nearest to the head."""
        number = self._index.replacement(bundle, package, channel)
        if number is None:
            raise QueryFailed(f"no entry found for {package} {channel}")
        return self._bundle(package, channel, number)

    def get_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Reply[Iterable[bytes]]:
        """A ChannelEntry for every edge of every bundle that provides an API."""
        entries = self._index.entries_providing(_api_value(group, version, kind))
        return _entries(entries, f"no channel entries found that provide {group} {version} {kind}")

    def get_latest_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Reply[Iterable[bytes]]:
        """A ChannelEntry for every channel that provides an API: the one nearest to its head."""
        entries = self._index.latest_entries_providing(_api_value(group, version, kind))
        return _entries(entries, f"no channel entries found that provide {group} {version} {kind}")

    def get_default_bundle_that_provides(self, group: str, version: str, kind: str) -> Reply[bytes]:
        """The Bundle of the first package by name that provides an API in its default channel."""
        found = self._index.default_provider(_api_value(group, version, kind))
        if found is None:
            raise QueryFailed(f"no entry found that provides {group} {version} {kind}")
        return self._bundle(*found)

    def list_bundles(self) -> Reply[Iterable[bytes]]:
        """A Bundle for each place that one has in a channel."""
        place = self._prepared.find(LIST)
        return self.prepare_list if place is None else self._prepared.messages(place)

    def prepare_list(self) -> Iterable[bytes]:
        """Make the list of all bundles, unless that was done by some process, and give it."""
        return self._prepared.messages(self._prepared.prepare(LIST, lambda: framed(self._listed())))

    def _bundle(self, package: str, channel: str, number: int) -> Reply[bytes]:
        head = bundles.place(package, channel)
        return self._recorded(content_record(number), partial(self._content, number), head)

    def _recorded(self, record: int, make: Callable[[], bytes], head: bytes = b"") -> Reply[bytes]:
        """The record behind ``head``; where it is not there yet, what makes it."""
        place = self._prepared.find(record)
        if place is not None:
            return head + self._prepared.read(place)
        return lambda: head + self._prepared.read(self._prepared.prepare(record, lambda: [make()]))

    def _content(self, number: int) -> bytes:
        return bundles.content(self._contents.bundle(number), self._contents.plural)

    def _csv(self, number: int) -> bytes:
        return bundles.head_of_channel(*self._contents.csv(number))

    def _listed(self) -> Iterator[bytes]:
        contents: dict[int, bytes | None] = {}
        package = ""
        for listed in self._contents.list_bundles():
            if listed.package != package:  # few bundles are in two packages
                contents.clear()
                package = listed.package
            if listed.number not in contents:
                stored = self._contents.bundle(listed.number, omit_manifests=True)
                contents[listed.number] = bundles.listed_content(stored)
            content = contents[listed.number]
            if content is not None:
                yield bundles.listed_place(listed) + content


def _entries(entries: Iterable[ChannelEntry], otherwise: str) -> list[bytes]:
    found = [
        _ENTRY(
            packageName=entry.package, channelName=entry.channel, bundleName=entry.bundle, replaces=entry.replaces
        ).SerializeToString()
        for entry in entries
    ]
    if not found:
        raise QueryFailed(otherwise)
    return found


def _api_value(group: str, version: str, kind: str) -> str:
    """An API as the property of who provides it, which is looked for as text."""
    from opmkit.bundle.model import ApiKey  # much is loaded with it, which few calls need
    from opmkit.bundle.properties import gvk_value

    return gvk_value(ApiKey(group, version, kind, "")).value
