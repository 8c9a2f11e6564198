"""Deprecating bundles of a catalog: updates end with them, and what lies below goes (``deprecatetruncate``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from opmkit.index.errors import CatalogError, GraphError, combined
from opmkit.index.fbc.blobs import CHANNEL, DEPRECATED, BlobProperty, Blobs
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.from_bundle import move_objects_last
from opmkit.index.fbc.packages import other_package_warnings, replace_packages, select_packages, validate_packages
from opmkit.index.operations.deprecate import without_references
from opmkit.index.operations.remove_fbc import without_stranded
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
from opmkit.index.operations.values import Edit
from opmkit.index.sqlite.deprecation import Edge

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob, EntryBlob

_MARK = BlobProperty(DEPRECATED, {})


class _Target(NamedTuple):
    """A bundle by its package and name."""

    package: str
    bundle: str


def truncate(
    blobs: Blobs,
    images: Sequence[str],
    *,
    permissive: bool = False,
    allow_package_removal: bool = False,
    compat: Compat = Compat.NEWEST,
) -> Edit:
    """Deprecate the bundles of these images one after the other; one that an earlier one made go is passed over.

    What can be updated from a deprecated bundle stays, and so does the bundle, with the property ``olm.deprecated``
    and no edges of its own; what it replaces or skips leaves the channels it is in, and the catalog where it is in no
    other. A channel that it heads goes, and the bundle if it is in none that stays. With ``allow_package_removal`` a
    package goes whose channels are all headed by bundles among ``images``. A catalog without any bundle stays as it is.

    All or nothing, unless ``permissive``: then what can't be done is told as ``failures``. A bundle of a package
    without default channel ends the deprecations.

    Raises:
        CatalogError: an image that no channel has, a default channel that would go; several errors in one.
        InvalidCatalog: a package that is changed would not be valid by the rules of the ``compat``.
    """
    listed = _listed(blobs)
    if not listed:
        return Edit(blobs)
    failures: list[CatalogError] = []
    if missing := [image for image in images if image not in listed]:
        failures.append(missing_images(missing))
    targets = [target for image in images for target in listed.get(image, ())]
    before = select_packages(blobs, dict.fromkeys(target.package for target in targets))
    packages = dict(before)
    if allow_package_removal:
        targets, errors = _remove_headless(packages, targets)
        failures += errors
    failures += _truncate(packages, targets)
    if failures and not permissive:
        raise combined(failures)
    changed = {name: parts for name, parts in packages.items() if parts is not before[name]}
    result = replace_packages(blobs, changed)
    validate_packages(result, changed, compat)
    return Edit(result, other_package_warnings(result, changed, compat), failures=tuple(failures))


def _listed(blobs: Blobs) -> dict[str, list[_Target]]:
    """The bundles that some channel of their package has an entry for, by their images."""
    placed = {(channel.package, entry.name) for channel in blobs.channels for entry in channel.entries}
    listed: dict[str, list[_Target]] = {}
    for bundle in blobs.bundles:
        if bundle.image and (bundle.package, bundle.name) in placed:
            listed.setdefault(bundle.image, []).append(_Target(bundle.package, bundle.name))
    return listed


def _remove_headless(
    packages: dict[str, Blobs], targets: Sequence[_Target]
) -> tuple[list[_Target], list[CatalogError]]:
    """Take all from packages of whose channels the default one, and then every one, is headed by a target.

    Gives the targets that are left, which are all where a package has another head.
    """
    removed: list[str] = []
    for package, name in targets:
        parts = packages[package]
        if name not in _default_heads(parts):
            continue
        for channel in parts.channels:
            for head in channel_heads(channel.entries):
                if (package, head) not in targets:
                    return list(targets), [head_left(package, channel.name, _image(parts, head))]
        removed.append(package)
    for package in removed:
        packages[package] = Blobs()
    return [target for target in targets if target.package not in removed], list(removed_twice(removed))


def _image(parts: Blobs, name: str) -> str:
    return next((one.image for one in parts.bundles if one.name == name), "") or name


def _default_heads(parts: Blobs) -> set[str]:
    """The heads of the default channel of a package; a valid one has one."""
    default = next((one.default_channel for one in parts.packages), "")
    return {head for one in parts.channels if one.name == default for head in channel_heads(one.entries)}


def _truncate(packages: dict[str, Blobs], targets: Iterable[_Target]) -> list[CatalogError]:
    """Make all deprecations that can be made; gives the errors of the others."""
    errors: list[CatalogError] = []
    for package, name in targets:
        try:
            packages[package] = _without_tail(packages[package], name)
        except DefaultChannelRemoval as error:
            errors.append(error)
        except GraphError as error:
            errors.append(error)
            break
    return errors


def _without_tail(parts: Blobs, target: str) -> Blobs:
    """A package after one deprecation."""
    if all(bundle.name != target for bundle in parts.bundles):
        return parts
    heads = _default_heads(parts)
    if not heads:
        raise no_default_channel(target)
    tail = set(tail_of(standings(_edges(parts.channels)), target))
    if lost := heads & tail:
        raise default_channel_removal(target, min(lost))
    channels = tuple(
        _cut(channel, target, tail) if any(entry.name == target for entry in channel.entries) else channel
        for channel in parts.channels
        if channel_heads(channel.entries) != (target,)
    )
    kept = {channel.name for channel in channels}
    gone = {(channel.package, CHANNEL, channel.name) for channel in parts.channels if channel.name not in kept}
    bundles = tuple(_marked(bundle) if bundle.name == target else bundle for bundle in parts.bundles)
    deprecations = without_references(parts.deprecations, gone)
    return without_stranded(replace(parts, channels=channels, bundles=bundles, deprecations=deprecations)).blobs


def _edges(channels: Iterable[ChannelBlob]) -> Iterator[Edge]:
    """The entries of channels as an index database has them: one for itself, one for each that it updates from."""
    for channel in channels:
        for entry in channel.entries:
            yield Edge(channel.name, entry.name, None)
            for below in filter(None, (*entry.skips, entry.replaces)):
                yield Edge(channel.name, entry.name, below)


def _cut(channel: ChannelBlob, target: str, tail: AbstractSet[str]) -> ChannelBlob:
    """The channel without the tail of the target, and without edges to it."""
    below = tail - {target}
    kept = (entry for entry in channel.entries if entry.name not in below)
    entries = tuple(replace(e, replaces="", skips=()) if e.name == target else _without(e, below) for e in kept)
    return replace(channel, entries=entries)


def _without(entry: EntryBlob, names: Collection[str]) -> EntryBlob:
    """The entry without edges to these names."""
    if not {entry.replaces, *entry.skips}.intersection(names):
        return entry
    skips = tuple(skip for skip in entry.skips if skip not in names)
    return replace(entry, replaces="" if entry.replaces in names else entry.replaces, skips=skips)


def _marked(bundle: BundleBlob) -> BundleBlob:
    if _MARK in bundle.properties:
        return bundle
    return replace(bundle, properties=move_objects_last([*bundle.properties, _MARK]))
