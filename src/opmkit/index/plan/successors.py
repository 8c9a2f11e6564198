"""Successors: the bundle that each installed one is updated to, and the paths of updates along them.

Time and memory are linear in the size of a channel: each path refers to the successors instead of having a list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.bundle.versions import VersionKey, VersionRange

K = TypeVar("K")
T = TypeVar("T")


class Successors(Generic[K, T]):
    """The update of each installed bundle: the first one that is offered is retained.

    Attributes:
        found: The updates by the key of the installed bundle.
    """

    def __init__(self, versions: Iterable[tuple[VersionKey, K]]) -> None:
        """Prepare for installed bundles with these versions."""
        ordered = sorted(versions, key=lambda each: each[0])
        self._versions = [version for version, _ in ordered]
        self._keys = [key for _, key in ordered]
        self._next = list(range(len(ordered) + 1))
        """For each position the first one from there on that no range has contained."""
        self.found: dict[K, T] = {}

    def offer(self, keys: Iterable[K], update: T) -> None:
        """Offer an update to bundles."""
        for key in keys:
            self.found.setdefault(key, update)

    def offer_range(self, versions: VersionRange, update: T) -> None:
        """Offer an update to bundles with versions in a range."""
        for start, end in versions.spans(self._versions):
            position = self._first_from(start)
            while position < end:
                self.found.setdefault(self._keys[position], update)
                self._next[position] = position + 1
                position = self._first_from(position)

    def _first_from(self, position: int) -> int:
        first = position
        while self._next[first] != first:
            first = self._next[first]
        while position != first:
            self._next[position], position = first, self._next[position]
        return first


class Hops(Sequence[str]):
    """The names of the bundles on a path of updates, which compares like a tuple."""

    def __init__(self, route: Route[Any], name: Callable[[Any], str], count: int, last: str = "") -> None:
        """Describe the first ``count`` hops of a route, of which the last is called ``last`` unless it is the end."""
        self._count = count
        self._route = route
        self._name = name
        self.last = last or (name(route.last) if count == route.count else name(route.start))
        """Name of the last bundle, that of the installed one if there are no hops."""
        self.tokens = route.tokens

    def first(self, count: int, last: str) -> Hops:
        """Return the first hops, of which the last is called ``last``."""
        return Hops(self._route, self._name, count, last)

    def __len__(self) -> int:
        """Return the number of hops."""
        return self._count

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        key, graph, name = self._route.start, self._route.graph, self._name
        for _ in range(self._count):
            key = graph[key]
            yield name(key)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        """Return a name or several."""
        if index == 0 and self._count:
            return next(iter(self))
        return self.last if index == -1 and self._count else tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        """Return whether the other value has the same names."""
        return tuple(self) == tuple(other) if isinstance(other, Hops | tuple) else NotImplemented

    def __hash__(self) -> int:
        """Return the hash of the tuple."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Return the tuple as text."""
        return repr(tuple(self))


class Route(Struct, Generic[K], frozen=True):
    """The updates of an installed bundle.

    Attributes:
        start: The installed bundle.
        count: The number of updates until there is no other, or the next one would lead back.
        last: The last bundle.
        repeated: The bundle on the route, or its start, that the next update would lead back to; None at its end.
    """

    graph: Mapping[K, K]
    start: K
    count: int
    last: K
    repeated: K | None = None

    def keys(self) -> Iterator[K]:
        """Iterate over the bundles after the start, without an end if they lead back."""
        key = self.start
        while key in self.graph:
            key = self.graph[key]
            yield key

    def tokens(self) -> Iterator[object]:
        """Iterate over values for the bundles: all that follows on two routes is equal if these are equal, not None."""
        return ((id(self.graph), key) if self.repeated is None else None for key in self.keys())


class Routes(Generic[K]):
    """The routes along the successors of bundles, each bundle of which is visited once."""

    def __init__(self, graph: Mapping[K, K]) -> None:
        """Prepare the routes along successors, none of which is its own successor."""
        self._graph = graph
        self._known: dict[K, Route[K]] = {}

    def __getitem__(self, start: K) -> Route[K]:
        """Return the route of an installed bundle."""
        pending: dict[K, None] = {}
        key = start
        while key not in self._known and key not in pending and key in self._graph:
            pending[key] = None
            key = self._graph[key]
        if key in pending:
            self._add_circle(key)
        self._known.setdefault(key, Route(self._graph, key, 0, key))
        for each in reversed(pending):
            following = self._known[self._graph[each]]
            route = Route(self._graph, each, following.count + 1, following.last, following.repeated)
            self._known.setdefault(each, route)
        return self._known[start]

    def _add_circle(self, start: K) -> None:
        circle = [start]
        while (key := self._graph[circle[-1]]) != start:
            circle.append(key)
        for number, key in enumerate(circle):
            self._known[key] = Route(self._graph, key, len(circle) - 1, circle[number - 1], key)


def group(pairs: Iterable[tuple[K, T]]) -> Mapping[K, list[T]]:
    """Return the second values of pairs by the first."""
    groups: defaultdict[K, list[T]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups
