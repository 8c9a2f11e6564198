"""The change that deprecates bundles and removes the versions below them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.index.change import Change, ChangeResult, EditResult
from opmkit.index.errors import GraphError, combine_errors
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
from opmkit.index.sqlite.packages import channel_heads, default_heads, nodes
from opmkit.index.sqlite.removal import (
    default_heads_around,
    edges_around,
    images_in_channels,
    mark_deprecated,
    remove_bundle,
    remove_from_shared_channels,
    remove_orphans,
    remove_package,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from opmkit.index.errors import CatalogError
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.sqlite import IndexDatabase


@dataclass(frozen=True, slots=True)
class TruncateBundles(Change):
    """Deprecate the bundles of these images and remove what they replace or skip."""

    images: Sequence[str]
    permissive: bool = False
    allow_package_removal: bool = False

    def apply_to_database(self, database: IndexDatabase) -> ChangeResult:
        """Deprecate the bundles of a database."""

        result = truncate_bundles(
            database, self.images, permissive=self.permissive, allow_package_removal=self.allow_package_removal
        )
        return ChangeResult(failures=result.failures)

    def apply_to_catalog(self, blobs: Blobs) -> EditResult:
        """Deprecate the bundles of a file-based catalog."""
        from opmkit.index.operations.truncate.fbc import truncate_bundles

        return truncate_bundles(
            blobs, self.images, permissive=self.permissive, allow_package_removal=self.allow_package_removal
        )


class TruncateResult(Struct, frozen=True):
    """The names of deprecated bundles and removed packages, and the failures in permissive mode."""

    deprecated: tuple[str, ...] = ()
    removed_packages: tuple[str, ...] = ()
    failures: tuple[CatalogError, ...] = ()


def truncate_bundles(
    database: IndexDatabase,
    images: Sequence[str],
    *,
    permissive: bool = False,
    allow_package_removal: bool = False,
) -> TruncateResult:
    """Deprecate the bundles of these images in order; skip those that an earlier deprecation removed.

    Bundles that update from a deprecated bundle stay. Those that it replaces or skips are removed from its channels,
    and from the index if no other channel or bundle refers to them. The channels that it heads are removed. With
    ``allow_package_removal``, remove a package if bundles among ``images`` head all of its channels. An index without
    bundles is not changed.

    Atomic unless permissive; then errors are returned as failures. A bundle of a package without a default channel
    ends the operation.

    Raises:
        CatalogError: No channel has an image, or a default channel would be removed; several errors are combined.
    """
    names_by_image = images_in_channels(database)
    if not names_by_image:
        return TruncateResult()
    with database.transaction():
        result = _truncate_all(database, images, names_by_image, allow_package_removal)
        if result.failures and not permissive:
            raise combine_errors(result.failures)
    return result


def _truncate_all(
    database: IndexDatabase, images: Sequence[str], names_by_image: Mapping[str, str], allow_package_removal: bool
) -> TruncateResult:
    failures: list[CatalogError] = []
    if missing := [image for image in images if image not in names_by_image]:
        failures.append(missing_images(missing))
    names = [names_by_image[image] for image in images if image in names_by_image]
    removed: list[str] = []
    if allow_package_removal:
        try:
            removed = _deprecated_packages(database, names)
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
        remove_orphans(database)
    return TruncateResult(tuple(deprecated), tuple(dict.fromkeys(removed)), tuple(failures))


def _deprecated_packages(database: IndexDatabase, names: Collection[str]) -> list[str]:
    """Return the packages whose default channel is headed by one of these bundles.

    As in operator-registry, a repeated default head repeats the package.

    Raises:
        GraphError: Another bundle heads a channel of such a package.
    """
    defaults = default_heads(database)
    packages = [defaults[name] for name in names if name in defaults]
    for package in packages:
        for head in channel_heads(database, package):
            if head.bundle not in names:
                raise remaining_head(package, head.channel, head.image)
    return packages


def _truncate(database: IndexDatabase, target: str) -> bool:
    """Deprecate one bundle; return False if the index does not have it any longer."""
    if not nodes(database, [target]):
        return False
    infos = node_infos(edges_around(database, target))
    heads = default_heads_around(database, target)
    if not heads:
        raise no_default_channel(target)
    tail = tail_of(infos, target)
    if removed := heads & set(tail):
        raise default_channel_removal(target, min(removed))
    for name in tail[1:]:
        remove_from_shared_channels(database, name, target)
        if infos[name].channels <= infos[target].channels and infos[name].replaced_by <= set(tail):
            remove_bundle(database, name)
    mark_deprecated(database, target)
    return True
