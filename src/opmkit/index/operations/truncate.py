"""Deprecating bundles: updates end with them, and what lies below goes (index semantics, section 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.index.errors import GraphError, combined
from opmkit.index.operations.truncate_rules import (
    DefaultChannelRemoval,
    default_channel_removal,
    head_left,
    missing_images,
    no_default_channel,
    removed_twice,
    standings,
    tail_of,
)
from opmkit.index.sqlite.channels import channel_heads, default_heads
from opmkit.index.sqlite.deprecation import (
    default_heads_around,
    edges_around,
    leave_shared_channels,
    listed_images,
    mark_deprecated,
)
from opmkit.index.sqlite.packages import nodes
from opmkit.index.sqlite.removal import remove_bundle, remove_homeless_bundles, remove_package

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from opmkit.index.errors import CatalogError
    from opmkit.index.sqlite import IndexDatabase


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
        failures.append(missing_images(missing))
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
    failures += removed_twice(removed)
    deprecated: list[str] = []
    for name in names:
        try:
            if _truncate(database, name):
                deprecated.append(name)
        except DefaultChannelRemoval as error:
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
                raise head_left(package, head.channel, head.image)
    return packages


def _truncate(database: IndexDatabase, target: str) -> bool:
    """Deprecate one bundle; whether it is still there to be."""
    if not nodes(database, [target]):
        return False
    places = standings(edges_around(database, target))
    heads = default_heads_around(database, target)
    if not heads:
        raise no_default_channel(target)
    tail = tail_of(places, target)
    if lost := heads & set(tail):
        raise default_channel_removal(target, min(lost))
    for name in tail[1:]:
        leave_shared_channels(database, name, target)
        if places[name].channels <= places[target].channels and places[name].replaced_by <= set(tail):
            remove_bundle(database, name)
    mark_deprecated(database, target)
    return True
