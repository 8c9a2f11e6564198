"""Deprecating bundles: updates end with them, and what lies below goes (index semantics, section 9)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.index.database.channels import channel_heads, default_heads
from opmkit.index.database.deprecation import (
    default_heads_around,
    edges_around,
    leave_shared_channels,
    listed_images,
    mark_deprecated,
)
from opmkit.index.database.packages import nodes
from opmkit.index.database.removal import remove_bundle, remove_homeless_bundles, remove_package
from opmkit.index.errors import CatalogError, GraphError, combined

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from opmkit.index.database import IndexDatabase
    from opmkit.index.database.deprecation import Edge


class _DefaultChannelRemoval(GraphError):
    """A bundle that can't be deprecated, which keeps no other from it."""


@dataclass(frozen=True, slots=True)
class Deprecation:
    """The bundles that were deprecated and the packages that were removed, by name.

    ``failures`` can be there in permissive mode only.
    """

    deprecated: tuple[str, ...] = ()
    removed_packages: tuple[str, ...] = ()
    failures: tuple[CatalogError, ...] = ()


def deprecate_bundles(
    database: IndexDatabase,
    images: Sequence[str],
    *,
    permissive: bool = False,
    allow_package_removal: bool = False,
) -> Deprecation:
    """Deprecate the bundles of these images one after the other; one that an earlier one made go is passed over.

    What can be updated from a deprecated bundle stays; what it replaces or skips leaves the channels it is in, and the
    index if nothing else needs it. A channel that it heads goes. With ``allow_package_removal`` a package goes whose
    channels are all headed by bundles among ``images``. An index without any bundle stays as it is.

    All or nothing, unless ``permissive``: then what can't be done is told as ``failures``. A bundle of a package
    without default channel ends the deprecations.

    Raises:
        CatalogError: an image that no channel has, a default channel that would go; several errors in one.
    """
    listed = listed_images(database)
    if not listed:
        return Deprecation()
    with database.transaction():
        result = _deprecate(database, images, listed, allow_package_removal)
        if result.failures and not permissive:
            raise combined(result.failures)
    return result


def _deprecate(
    database: IndexDatabase, images: Sequence[str], listed: Mapping[str, str], allow_package_removal: bool
) -> Deprecation:
    failures: list[CatalogError] = []
    if missing := [image for image in images if image not in listed]:
        failures.append(_missing(missing))
    names = [listed[image] for image in images if image in listed]
    removed: list[str] = []
    if allow_package_removal:
        try:
            removed = _headless_packages(database, names)
        except GraphError as error:
            failures.append(error)
    for package in removed:
        heads = {head.bundle for head in channel_heads(database, package)}
        names = [name for name in names if name not in heads]
        remove_package(database, package)
    failures += _removed_already(removed)
    deprecated: list[str] = []
    for name in names:
        try:
            if _truncate(database, name):
                deprecated.append(name)
        except _DefaultChannelRemoval as error:
            failures.append(error)
        except GraphError as error:
            failures.append(error)
            break
    if deprecated:
        remove_homeless_bundles(database)
    return Deprecation(tuple(deprecated), tuple(dict.fromkeys(removed)), tuple(failures))


def _headless_packages(database: IndexDatabase, names: Collection[str]) -> list[str]:
    """The packages of whose channels the default one, and then every one, must be headed by one of these bundles.

    One whose default head is there twice is there twice too, as in the reference.
    """
    defaults = default_heads(database)
    packages = [defaults[name] for name in names if name in defaults]
    for package in packages:
        for head in channel_heads(database, package):
            if head.bundle not in names:
                raise GraphError(
                    f"cannot deprecate default channel head from package without removing all other channel heads in "
                    f"package {package}: must deprecate {head.image}, head of channel {head.channel}",
                    advice="Deprecate the heads of all channels of a package to remove it.",
                )
    return packages


def _truncate(database: IndexDatabase, target: str) -> bool:
    """Deprecate one bundle; whether it is still there to be."""
    if not nodes(database, [target]):
        return False
    places = _places(edges_around(database, target))
    heads = default_heads_around(database, target)
    if not heads:
        raise GraphError(
            f"error deprecating bundle {target}: it is in no package that has a default channel",
            advice="Add the bundle that is to head the default channel first; 'opm registry prune-stranded' removes "
            "bundles that are in no channel any more.",
        )
    tail = _tail(places, target)
    if lost := heads & set(tail):
        raise _default_channel_removal(target, min(lost))
    for name in tail[1:]:
        leave_shared_channels(database, name, target)
        if places[name].channels <= places[target].channels and places[name].replaced_by <= set(tail):
            remove_bundle(database, name)
    mark_deprecated(database, target)
    return True


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a bundle stands in the channels of its package, whichever they are."""

    channels: set[str] = field(default_factory=set)
    replaces: dict[str, None] = field(default_factory=dict)
    replaced_by: set[str] = field(default_factory=set)


def _places(edges: Iterable[Edge]) -> dict[str, _Place]:
    places: dict[str, _Place] = {}
    for edge in edges:
        place = places.setdefault(edge.bundle, _Place())
        place.channels.add(edge.channel)
        if edge.replaces is not None:
            place.replaces[edge.replaces] = None
            places.setdefault(edge.replaces, _Place()).replaced_by.add(edge.bundle)
    return places


def _tail(places: Mapping[str, _Place], target: str) -> list[str]:
    """A bundle and all that it leads to by what it replaces or skips, in any channel."""
    tail = [target]
    seen = {target}
    for name in tail:  # grows while it is walked
        below = [other for other in places[name].replaces if other not in seen]
        seen.update(below)
        tail += below
    return tail


def _missing(images: Sequence[str]) -> CatalogError:
    return CatalogError(
        f"target bundlepaths for deprecation missing from registry: [{' '.join(images)}]",
        advice="Name bundle images as the index has them: 'opm alpha list bundles' shows those in its channels.",
    )


def _removed_already(packages: Sequence[str]) -> Iterator[CatalogError]:
    for package, times in Counter(packages).items():
        if times > 1:
            yield CatalogError(
                f"error removing package {package}: no package found for packagename {package}: it went with the "
                "head of its default channel, which is named twice",
                advice="Name each bundle image once.",
            )


def _default_channel_removal(target: str, head: str) -> _DefaultChannelRemoval:
    where = "it is the head" if head == target else f"it leads to {head}, the head"
    return _DefaultChannelRemoval(
        f"error deprecating bundle {target}: Bundle deprecation causing default channel removal: {where} of the "
        "default channel",
        advice="Deprecate bundles below the head of the default channel; to remove the package as a whole, deprecate "
        "the heads of all its channels with --allow-package-removal.",
    )
