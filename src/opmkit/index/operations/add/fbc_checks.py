"""What keeps bundles out of a catalog, whatever graph they would give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.imagetools.hints import Hint, Setting
from opmkit.index.errors import BundleExists, BundleImageExists, BundleVersionExists, CatalogError, GraphError
from opmkit.index.graph import Node, check_foreign_names, claimed_names
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.session import PRESENT_HINT, missing_package_error, substitutes_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.operations.add.session import AddPlan
    from opmkit.index.operations.values import Arrival


@dataclass(frozen=True, slots=True)
class Admission:
    """The bundles that may be added, by package and in the order in which they are, and the errors of the others."""

    admitted: dict[str, list[Arrival]] = field(default_factory=dict)
    errors: list[CatalogError] = field(default_factory=list)


def admit(blobs: Blobs, arrivals: Iterable[Arrival], plan: AddPlan) -> Admission:
    """Tell which bundles may be added: of two with one name, the first by the fixed order; of one image, one.

    The errors of images that the catalog has come first, since they decide how a command ends.
    """
    present = _Present.of(blobs)
    admission = Admission()
    held: dict[tuple[str, str], Arrival] = {}
    for arrival in _each_once(arrivals):
        holder = held.get((arrival.package, arrival.name))
        error = _name_taken(arrival, holder) if holder else _refusal(arrival, present, plan)
        if error:
            admission.errors.append(error)
            continue
        held[arrival.package, arrival.name] = arrival
        for name in _claims(arrival):
            present.owners.setdefault(name, set()).add(arrival.package)
        admission.admitted.setdefault(arrival.package, []).append(arrival)
    admission.errors.sort(key=lambda error: not isinstance(error, BundleImageExists))
    return admission


def _each_once(arrivals: Iterable[Arrival]) -> Iterator[Arrival]:
    images: set[str] = set()
    for arrival in sorted(arrivals, key=lambda one: one.order):
        if not arrival.image or arrival.image not in images:
            yield arrival
        images.add(arrival.image)


@dataclass(frozen=True, slots=True)
class _Present:
    """What a catalog has: (package, name) and (package, image) of its bundles.

    ``owners`` are the packages that name a bundle in a channel; ``above`` has the (channel, bundle) pairs that update
    from a (package, name).
    """

    names: frozenset[tuple[str, str]]
    images: frozenset[tuple[str, str]]
    owners: dict[str, set[str]]
    above: dict[tuple[str, str], list[tuple[str, str]]]

    @classmethod
    def of(cls, blobs: Blobs) -> _Present:
        above: dict[tuple[str, str], list[tuple[str, str]]] = {}
        owners: dict[str, set[str]] = {}
        for channel in blobs.channels:
            for entry in channel.entries:
                owners.setdefault(entry.name, set()).add(channel.package)
                for below in filter(None, (*entry.skips, entry.replaces)):
                    owners.setdefault(below, set()).add(channel.package)
                    above.setdefault((channel.package, below), []).append((channel.name, entry.name))
        return cls(
            frozenset((one.package, one.name) for one in blobs.bundles),
            frozenset((one.package, one.image) for one in blobs.bundles if one.image),
            owners,
            above,
        )


def _refusal(arrival: Arrival, present: _Present, plan: AddPlan) -> CatalogError | None:
    if not arrival.package:
        return missing_package_error(arrival.described)
    if not arrival.channels:
        return _without_channel(arrival)
    if arrival.substitutes_for and not plan.enable_alpha:
        return substitutes_error(arrival.described, arrival.substitutes_for)
    if (arrival.package, arrival.image) in present.images:
        told = f"bundle {arrival.image} already exists in package {arrival.package} of the catalog"
        return BundleImageExists(told, hint=PRESENT_HINT)
    if (arrival.package, arrival.name) in present.names and (error := _not_overwritten(arrival, present, plan)):
        return error
    try:
        claims = _claims(arrival)
        owned = ((name, present.owners.get(name, set())) for name in claims)
        check_foreign_names(claims, [(name, min(by)) for name, by in owned if by and arrival.package not in by])
    except GraphError as error:
        return error
    return None


def _claims(arrival: Arrival) -> dict[str, str]:
    node = Node(arrival.name, arrival.version, arrival.replaces, arrival.skips)
    return claimed_names([(arrival.package, node)])


def _without_channel(arrival: Arrival) -> CatalogError:
    return CatalogError(
        f"{arrival.described} can't be added: it is to be in no channel",
        hint=Hint.any_of("set channels in its annotations", Hint("pass {}", Setting.CHANNEL)),
    )


def _name_taken(arrival: Arrival, holder: Arrival) -> BundleExists:
    return BundleExists(
        f"{arrival.described} can't be added: its name is taken by {holder.image or 'another bundle'} of the same "
        "command",
        advice="Give its ClusterServiceVersion a name of its own.",
    )


def _not_overwritten(arrival: Arrival, present: _Present, plan: AddPlan) -> CatalogError | None:
    """Why a bundle can't take the place of the one that has its name; None if it can."""
    if not plan.overwrite_latest:
        return BundleVersionExists(
            f"package {arrival.package} has a bundle {arrival.name} already",
            hint=Hint.any_of(
                "give the new bundle's ClusterServiceVersion its own name and version",
                Hint("replace the existing bundle with {} if it is the head of its channels", Setting.OVERWRITE_LATEST),
            ),
        )
    if plan.mode is not UpdateMode.REPLACES:
        return BundleExists(
            f"{arrival.described} can't be added: its name is taken by a bundle that the catalog has",
            advice="Overwrite it in the mode replaces.",
        )
    above = present.above.get((arrival.package, arrival.name))
    if not above:
        return None
    edges = ", ".join(f"{name} in channel {channel}" for channel, name in sorted(set(above)))
    return GraphError(
        f"bundle {arrival.name} of package {arrival.package} can't be overwritten: it is updated from by {edges}",
        advice="Only a bundle that nothing replaces or skips can be; add the change as a new version.",
    )
