"""Compare two indexes of either kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opmkit.index.diff.model import ChangeKind, diff_states, read_state
from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob
from opmkit.index.fbc.definitions import has_objects, new_edges, read_missing_objects, refused_edges
from opmkit.index.image.source import DATABASES, INDEXES, IndexSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.imagetools.tools.tool import ContainerTool
    from opmkit.index.diff.model import IndexDiff, IndexState
    from opmkit.index.fbc.blobs import Blob
    from opmkit.index.fbc.definitions import ReadBundles
    from opmkit.index.fbc.permissions import ReadPermissions


def compare_indexes(
    tool: ContainerTool,
    before: str,
    after: str,
    read: ReadBundles | None = None,
    read_permissions: ReadPermissions | None = None,
) -> IndexDiff:
    """Return the differences between two indexes: images, catalog directories or database files.

    They need not be valid. To compare a database with a file-based catalog, the database is converted.

    Args:
        tool: The tool that pulls index images.
        before: The first index.
        after: The second index.
        read: Reads bundles that the second index contains without their objects; without it, their
            CustomResourceDefinitions are not compared, nor those of databases.
        read_permissions: Reads the permissions of bundle images; without it, those of bundles without objects are not
            compared.

    Raises:
        CatalogError: An index does not exist, or cannot be read.
        ImageToolsError: An image cannot be read.
    """
    old, new = (IndexSource.find(lambda: tool, name, build_context=True) for name in (before, after))
    for source in (old, new):
        source.require(INDEXES)
    complete: set[str] = set()
    if {old.kind, new.kind} <= DATABASES:
        diff = diff_states(_state(old), _state(new))
    else:
        from opmkit.index.diff.fbc import diff_blobs

        diff = diff_blobs(old.stream_blobs(), _note_objects(new.stream_blobs(), complete))
    if not read and not read_permissions and not complete & _changed_graphs(diff):
        return diff
    return with_reviewed_updates(diff, old.stream_blobs(), new.stream_blobs(), read, read_permissions)


def with_reviewed_updates(
    diff: IndexDiff,
    before: Iterable[Blob],
    after: Iterable[Blob],
    read: ReadBundles | None = None,
    read_permissions: ReadPermissions | None = None,
) -> IndexDiff:
    """Return a difference with the new updates that OLM refuses, or by which operators gain dangerous permissions.

    Args:
        diff: The difference.
        before: The blobs of the first index, of which the channels of changed packages are stored.
        after: The blobs of the second index, of which the changed packages are stored.
        read: Reads bundles without their objects; without it, their CustomResourceDefinitions are ignored.
        read_permissions: Reads the permissions of bundle images; without it, those of bundles without objects are
            ignored.
    """
    from opmkit.index.fbc.permissions import (  # slow to import: API types
        new_updates,
        permission_changes,
        read_images,
    )

    added = _added_bundles(diff)
    changed = sorted(_changed_graphs(diff))
    packages: dict[str, tuple[list[ChannelBlob], dict[str, BundleBlob]]] = {name: ([], {}) for name in changed}
    published: dict[str, list[ChannelBlob]] = {name: [] for name in changed}
    for blob in before if changed else ():
        if isinstance(blob, ChannelBlob) and blob.package in published:
            published[blob.package].append(blob)
    for blob in after if changed else ():
        channels, bundles = packages.get(blob.package, ([], {}))
        if isinstance(blob, ChannelBlob):
            channels.append(blob)
        elif isinstance(blob, BundleBlob):
            bundles.setdefault(blob.name, blob)
    edges: list[tuple[BundleBlob, BundleBlob]] = []
    updates: list[tuple[BundleBlob, BundleBlob]] = []
    for package, (channels, bundles) in packages.items():
        names = {name for owner, name in added if owner == package}
        edges += new_edges(channels, bundles, names)
        updates += [(old, new) for old, new in new_updates(channels, bundles, names, published[package]) if old]
    complete = read_missing_objects((blob for edge in edges for blob in edge), read)
    images = read_images((blob for edge in updates for blob in edge), read_permissions)
    known = [edge for edge in updates if all(blob.image in images or has_objects(blob) for blob in edge)]
    changes = tuple(permission_changes(known, images))
    return replace(diff, refused=tuple(refused_edges(edges, complete)), permissions=changes)


def _added_bundles(diff: IndexDiff) -> set[tuple[str, str]]:
    """Return package and name of the bundles that were added to packages of both indexes."""
    return {
        (package.name, bundle.name)
        for package in diff.packages
        for bundle in package.bundles
        if package.kind is ChangeKind.CHANGED and bundle.kind is ChangeKind.ADDED
    }


def _changed_graphs(diff: IndexDiff) -> set[str]:
    """Return the packages of both indexes whose channels or bundles changed."""
    return {
        package.name
        for package in diff.packages
        if package.kind is ChangeKind.CHANGED and (package.channels or package.bundles)
    }


def _note_objects(blobs: Iterable[Blob], complete: set[str]) -> Iterator[Blob]:
    """Yield blobs, and add the packages of bundles that contain their objects to a set."""
    for blob in blobs:
        if isinstance(blob, BundleBlob) and has_objects(blob):
            complete.add(blob.package)
        yield blob


def _state(source: IndexSource) -> IndexState:
    from opmkit.index.sqlite import open_database

    with source.open() as content, open_database(content.path) as database:
        return read_state(database)
