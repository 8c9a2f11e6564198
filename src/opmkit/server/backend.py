"""Interface between the gRPC service and an index, and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    _T = TypeVar("_T")
    Reply: TypeAlias = _T | Callable[[], _T]
    """A reply, or a function that computes it and may block, so that it must be called in a thread."""


class QueryBackend(Protocol):
    """An index that answers the calls of ``api.Registry`` with serialized messages, in a fixed order.

    The methods are named for those of the service. All may raise QueryFailed, as may the functions that they return.
    They are called in one thread, except for `list_bundles`, which may also be called in another.
    """

    def list_packages(self) -> Reply[tuple[bytes, ...]]:
        """Return a PackageName for each package, in the same tuple each time."""

    def get_package(self, name: str) -> Reply[bytes]:
        """Return the Package with this name."""

    def get_bundle(self, package: str, channel: str, bundle: str) -> Reply[bytes]:
        """Return a Bundle in a channel."""

    def get_bundle_for_channel(self, package: str, channel: str) -> Reply[bytes]:
        """Return the Bundle at the head of a channel."""

    def get_channel_entries_that_replace(self, bundle: str) -> Reply[Iterable[bytes]]:
        """Return a ChannelEntry for each update edge from a bundle."""

    def get_bundle_that_replaces(self, bundle: str, package: str, channel: str) -> Reply[bytes]:
        """Return a Bundle that a bundle is updated to in a channel."""

    def get_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Reply[Iterable[bytes]]:
        """Return a ChannelEntry for each update edge of each bundle that provides an API."""

    def get_latest_channel_entries_that_provide(self, group: str, version: str, kind: str) -> Reply[Iterable[bytes]]:
        """Return the newest ChannelEntry of each channel that provides an API."""

    def get_default_bundle_that_provides(self, group: str, version: str, kind: str) -> Reply[bytes]:
        """Return a Bundle in a default channel that provides an API."""

    def list_bundles(self) -> Reply[Iterable[bytes]]:
        """Return a Bundle for each entry of each channel."""
