"""Deprecate bundles of a file-based catalog and remove the versions below them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from opmkit.index.change import EditResult
from opmkit.index.errors import CatalogError, GraphError, combine_errors
from opmkit.index.fbc.blobs import CHANNEL, DEPRECATED, BlobProperty, Blobs
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.from_bundle import move_objects_last
from opmkit.index.fbc.packages import other_package_warnings, replace_packages, select_packages, validate_packages
from opmkit.index.operations.deprecate import remove_references
from opmkit.index.operations.prune import prune_stranded_in_catalog
from opmkit.index.operations.truncate.rules import (
    DefaultChannelRemoval,
    default_channel_removal,
    missing_images,
    no_default_channel,
    node_infos,
    remaining_head,
    removed_twice,
    tail_of,
)
from opmkit.index.sqlite.removal import Edge

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob, EntryBlob

_DEPRECATED = BlobProperty(DEPRECATED, {})


class _Target(NamedTuple):
    """The package and name of a bundle."""

    package: str
    bundle: str


def truncate_bundles(
    blobs: Blobs,
    images: Sequence[str],
    *,
    permissive: bool = False,
    allow_package_removal: bool = False,
    compat: CatalogCompat = CatalogCompat.NEWEST,
) -> EditResult:
    """Deprecate the bundles of these images in order; skip those that an earlier deprecation removed.

    Bundles that update from a deprecated bundle stay, and so does the bundle, with the property ``olm.deprecated``
    and without edges. Those that it replaces or skips are removed from its channels, and from the catalog if they are
    in no other channel. The channels that it heads are removed, and the bundle if it is in no other channel. With
    ``allow_package_removal``, remove a package if bundles among ``images`` head all of its channels. A catalog without
    bundles is not changed.

    Atomic unless permissive; then errors are returned as failures. A bundle of a package without a default channel
    ends the operation.

    Raises:
        CatalogError: No channel has an image, or a default channel would be removed; several errors are combined.
        InvalidCatalog: A changed package is invalid by the rules of ``compat``.
    """
    by_image = _placed_bundles(blobs)
    if not by_image:
        return EditResult(blobs)
    failures: list[CatalogError] = []
    if missing := [image for image in images if image not in by_image]:
        failures.append(missing_images(missing))
    targets = [target for image in images for target in by_image.get(image, ())]
    before = select_packages(blobs, dict.fromkeys(target.package for target in targets))
    packages = dict(before)
    if allow_package_removal:
        targets, errors = _remove_deprecated_packages(packages, targets)
        failures += errors
    failures += _truncate_all(packages, targets)
    if failures and not permissive:
        raise combine_errors(failures)
    changed = {name: package for name, package in packages.items() if package is not before[name]}
    result = replace_packages(blobs, changed)
    validate_packages(result, changed, compat)
    return EditResult(result, warnings=other_package_warnings(result, changed, compat), failures=tuple(failures))


def _placed_bundles(blobs: Blobs) -> dict[str, list[_Target]]:
    """Return the bundles with an entry in a channel of their package, by image."""
    placed = {(channel.package, entry.name) for channel in blobs.channels for entry in channel.entries}
    by_image: dict[str, list[_Target]] = {}
    for bundle in blobs.bundles:
        if bundle.image and (bundle.package, bundle.name) in placed:
            by_image.setdefault(bundle.image, []).append(_Target(bundle.package, bundle.name))
    return by_image


def _remove_deprecated_packages(
    packages: dict[str, Blobs], targets: Sequence[_Target]
) -> tuple[list[_Target], list[CatalogError]]:
    """Clear the packages whose channels are all headed by targets; return the other targets, and errors.

    If another bundle heads a channel of a package whose default head is a target, no package is cleared.
    """
    removed: list[str] = []
    for package, name in targets:
        blobs = packages[package]
        if name not in _default_heads(blobs):
            continue
        for channel in blobs.channels:
            for head in channel_heads(channel.entries):
                if (package, head) not in targets:
                    return list(targets), [remaining_head(package, channel.name, _image(blobs, head))]
        removed.append(package)
    for package in removed:
        packages[package] = Blobs()
    return [target for target in targets if target.package not in removed], list(removed_twice(removed))


def _image(package: Blobs, name: str) -> str:
    return next((bundle.image for bundle in package.bundles if bundle.name == name), "") or name


def _default_heads(package: Blobs) -> set[str]:
    """Return the heads of the default channel of a package; a valid one has one."""
    default = next((blob.default_channel for blob in package.packages), "")
    channels = (channel for channel in package.channels if channel.name == default)
    return {head for channel in channels for head in channel_heads(channel.entries)}


def _truncate_all(packages: dict[str, Blobs], targets: Iterable[_Target]) -> list[CatalogError]:
    """Apply the deprecations to ``packages``; return the errors of those that are not possible."""
    errors: list[CatalogError] = []
    for package, name in targets:
        try:
            packages[package] = _truncate(packages[package], name)
        except DefaultChannelRemoval as error:
            errors.append(error)
        except GraphError as error:
            errors.append(error)
            break
    return errors


def _truncate(package: Blobs, target: str) -> Blobs:
    """Return a package after one deprecation."""
    if all(bundle.name != target for bundle in package.bundles):
        return package
    heads = _default_heads(package)
    if not heads:
        raise no_default_channel(target)
    tail = set(tail_of(node_infos(_edges(package.channels)), target))
    if removed := heads & tail:
        raise default_channel_removal(target, min(removed))
    channels = tuple(
        _cut(channel, target, tail) if any(entry.name == target for entry in channel.entries) else channel
        for channel in package.channels
        if channel_heads(channel.entries) != (target,)
    )
    retained = {channel.name for channel in channels}
    removed_channels = {
        (channel.package, CHANNEL, channel.name) for channel in package.channels if channel.name not in retained
    }
    bundles = tuple(_deprecate(bundle) if bundle.name == target else bundle for bundle in package.bundles)
    deprecations = remove_references(package.deprecations, removed_channels)
    truncated = replace(package, channels=channels, bundles=bundles, deprecations=deprecations)
    return prune_stranded_in_catalog(truncated).blobs


def _edges(channels: Iterable[ChannelBlob]) -> Iterator[Edge]:
    """Yield the edges as a database stores them: one row per entry, and one per bundle that it replaces or skips."""
    for channel in channels:
        for entry in channel.entries:
            yield Edge(channel.name, entry.name, None)
            for below in filter(None, (*entry.skips, entry.replaces)):
                yield Edge(channel.name, entry.name, below)


def _cut(channel: ChannelBlob, target: str, tail: AbstractSet[str]) -> ChannelBlob:
    """Return the channel without the bundles below the target and without edges to them."""
    below = tail - {target}
    retained = (entry for entry in channel.entries if entry.name not in below)
    entries = (
        structs.replace(entry, replaces="", skips=()) if entry.name == target else _remove_edges(entry, below)
        for entry in retained
    )
    return replace(channel, entries=tuple(entries))


def _remove_edges(entry: EntryBlob, names: Collection[str]) -> EntryBlob:
    """Return the entry without edges to these bundles."""
    if not {entry.replaces, *entry.skips}.intersection(names):
        return entry
    skips = tuple(skip for skip in entry.skips if skip not in names)
    return structs.replace(entry, replaces="" if entry.replaces in names else entry.replaces, skips=skips)


def _deprecate(bundle: BundleBlob) -> BundleBlob:
    """Return the bundle with the property ``olm.deprecated``."""
    if _DEPRECATED in bundle.properties:
        return bundle
    return replace(bundle, properties=move_objects_last([*bundle.properties, _DEPRECATED]))
