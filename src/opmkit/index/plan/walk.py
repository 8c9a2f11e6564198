"""Walks: what OLM v0 does in a namespace, resolution by resolution, until nothing changes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from opmkit.index.plan.candidate import Hold
from opmkit.index.plan.namespace import Blocked, Subscription, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.index.plan.candidate import CatalogEntry, CatalogKey
    from opmkit.index.plan.namespace import Namespace, Resolution


State: TypeAlias = "tuple[frozenset[Subscription], frozenset[str]]"
"""The Subscriptions of a namespace, and the names of the installed bundles."""


class Walk(Struct, frozen=True):
    """The resolutions of a namespace.

    Attributes:
        resolutions: The resolutions that change something, or may do so.
        blocked: Why the last one failed, None if nothing is left to do.
        start: The namespace before.
        final: The namespace afterwards.
        is_circular: Whether the last one leads back to an earlier state, so that OLM would never finish.
    """

    resolutions: tuple[Resolution, ...]
    blocked: Blocked | None
    start: Namespace
    final: Namespace
    is_circular: bool = False


def walk(namespace: Namespace, known: dict[State, Resolution | Blocked] | None = None) -> Walk:
    """Resolve a namespace, apply the steps, and repeat until nothing changes or a resolution fails.

    Args:
        namespace: The namespace.
        known: Results of earlier resolutions with the same catalogs, to which those of the walk are added.

    Raises:
        AmbiguousChannel: Entries of a channel have no order.
        InvalidRequirement: A bundle has a requirement that OLM cannot parse.
    """
    resolutions: list[Resolution] = []
    known = {} if known is None else known
    states: set[State] = set()
    start = namespace
    while (state := _state(namespace)) not in states:
        states.add(state)
        if state not in known:
            known[state] = resolve(namespace)
        found = known[state]
        if isinstance(found, Blocked):
            return Walk(tuple(resolutions), found, start, namespace)
        if found.steps or found.others:
            resolutions.append(found)
        if not found.steps:
            return Walk(tuple(resolutions), None, start, namespace)
        namespace = install(namespace, (step.candidate for step in found.steps))
    return Walk(tuple(resolutions), None, start, namespace, is_circular=True)


def _state(namespace: Namespace) -> State:
    """Return what distinguishes the states of a namespace: its Subscriptions and its installed bundles."""
    return frozenset(namespace.subscriptions), frozenset(item.name for item in namespace.installed)


def install(namespace: Namespace, candidates: Iterable[CatalogEntry]) -> Namespace:
    """Return a namespace after the installation of bundles in turn; OLM subscribes to dependencies as well.

    An operator that OLM cannot replace remains, without a Subscription, and what replaces it waits for it.
    """
    subscriptions = list(namespace.subscriptions)
    following: defaultdict[tuple[str, CatalogKey], list[int]] = defaultdict(list)
    for position, each in enumerate(subscriptions):
        following[each.package, each.catalog].append(position)
    installed = {item.name: item for item in namespace.installed}
    for candidate in candidates:
        positions, replaced = following[candidate.package, candidate.catalog], {candidate.name}
        for position in positions:
            replaced.add(subscriptions[position].installed_csv)
            subscriptions[position] = replace(
                subscriptions[position], installed_csv=candidate.name, pending_csv="", install_plan=""
            )
        if not positions:
            positions.append(len(subscriptions))
            subscriptions.append(_subscribe(candidate))
        hold = None
        for item in filter(None, map(installed.get, replaced)):
            if item.hold and item.name != candidate.name:
                installed[item.name] = item.installed(namespace.name, mandatory=True, hold=item.hold)
                hold = Hold(f"stays Pending until {item.name} succeeds or is deleted")
            else:
                del installed[item.name]
        installed[candidate.name] = candidate.installed(namespace.name, mandatory=False, hold=hold)
    return replace(
        namespace,
        subscriptions=tuple(subscriptions),
        installed=tuple(sorted(installed.values(), key=lambda item: item.name)),
    )


def _subscribe(candidate: CatalogEntry) -> Subscription:
    """Return the Subscription that OLM creates for a dependency."""
    name = f"{candidate.package}-{candidate.channel}-{candidate.catalog.name}"
    return Subscription(name, candidate.package, candidate.channel, candidate.catalog, installed_csv=candidate.name)
