"""What a store must be able to answer in order to be served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    _T = TypeVar("_T")
    Reply: TypeAlias = _T | Callable[[], _T]
    """An answer, or what makes it where that may take its time: to be called in a thread."""


class QueryBackend(Protocol):
    """The answers to each call of ``api.Registry``: serialised messages, in a fixed order.

    Each may raise QueryFailed, also in making an answer. All are called in one thread, but for the list of all
    bundles, which may also be asked for in another.
    """

    def list_packages(self) -> Reply[tuple[bytes, ...]]:
        """A PackageName for every package, the same each time."""

    def get_package(self, name: str) -> Reply[bytes]:
        """The Package of that name."""

    def get_bundle(self, package: str, channel: str, bundle: str) -> Reply[bytes]:
        """A Bundle as it is in a channel."""

    def get_bundle_for_channel(self, package: str, channel: str) -> Reply[bytes]:
        """The Bundle at the head of a channel."""

    def get_channel_entries_that_replace(self, bundle: str) -> Reply[Iterable[bytes]]:
        """A ChannelEntry for every place from where updates lead away from a bundle."""

    def get_bundle_that_replaces(self, bundle: str, package: str, channel: str) -> Reply[bytes]:
        """A Bundle that a bundle is updated to in a channel."""

    def get_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Reply[Iterable[bytes]]:
        """A ChannelEntry for every edge of every bundle that provides an API."""

    def get_latest_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Reply[Iterable[bytes]]:
        """A ChannelEntry for every channel that provides an API: its latest one."""

    def get_default_bundle_that_provides(self, group: str, version: str, kind: str) -> Reply[bytes]:
        """A Bundle that provides an API in a default channel."""

    def list_bundles(self) -> Reply[Iterable[bytes]]:
        """A Bundle for each place that one has in a channel."""
