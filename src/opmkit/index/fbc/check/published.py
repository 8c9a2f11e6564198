"""Comparison with a published catalog: clusters have its bundles installed, so they must remain and stay upgradable."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from opmkit.bundle.versions import strict_version
from opmkit.index.fbc.blobs import (
    BUNDLE_OBJECT,
    CSV_METADATA,
    DEPRECATED,
    BundleBlob,
    ChannelBlob,
    OtherBlob,
    PackageBlob,
)
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.catalog import group_by_package, locate
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.fbc.definitions import new_edges, read_missing_objects, refused_edges
from opmkit.index.fbc.digests import value_digest
from opmkit.index.fbc.findings import CatalogFinding
from opmkit.index.graph.updates import ChannelUpdates, moved_back

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from semver import Version

    from opmkit.index.fbc.blobs import Blob, Blobs, SourceLocation
    from opmkit.index.fbc.check.catalog import PackageBlobs
    from opmkit.index.fbc.definitions import ReadBundles
    from opmkit.index.fbc.permissions import ReadPermissions

_PRUNABLE = re.compile("dev-preview|pre-ga|candidate")
"""Names of channels that Konflux allows to shrink."""
_DIGEST = re.compile(r"@(sha256:[0-9a-fA-F]{64})\Z")
_METADATA_FORMATS = frozenset({BUNDLE_OBJECT, CSV_METADATA})


class PublishedBundle(Struct, frozen=True):
    """The identity of a bundle, without the values of its properties.

    Attributes:
        image: The bundle image.
        version: The version, None if it is invalid.
        properties: Type and digest of the value of each property.
        related_images: Name and image, or its digest if it has one, of each related image but the bundle's own.
    """

    image: str
    version: Version | None
    properties: frozenset[tuple[str, bytes]]
    related_images: frozenset[tuple[str, str]]

    @classmethod
    def from_blob(cls, blob: BundleBlob) -> PublishedBundle:
        """Return the identity of a bundle."""
        return cls(
            blob.image,
            _version(blob),
            frozenset((item.type, value_digest(item.value)) for item in blob.properties),
            frozenset((item.name, _identity(item.image)) for item in blob.related_images if item.image != blob.image),
        )


class PublishedPackage(Struct):
    """A published package; of duplicate documents the first one counts."""

    name: str
    default_channel: str = ""
    channels: dict[str, ChannelBlob] = {}
    bundles: dict[str, PublishedBundle] = {}

    def add(self, blob: Blob) -> None:
        """Add a blob of the package."""
        match blob:
            case PackageBlob():
                self.default_channel = self.default_channel or blob.default_channel
            case ChannelBlob():
                self.channels.setdefault(blob.name, blob)
            case BundleBlob() if blob.name not in self.bundles:
                self.bundles[blob.name] = PublishedBundle.from_blob(blob)


def summarize_published(blobs: Iterable[Blob]) -> Mapping[str, PublishedPackage]:
    """Return the packages of a published catalog by name; the blobs need not be valid, and are not stored."""
    packages: dict[str, PublishedPackage] = {}
    for blob in blobs:
        if blob.package and not isinstance(blob, OtherBlob):
            packages.setdefault(blob.package, PublishedPackage(blob.package)).add(blob)
    return packages


def check_published(
    blobs: Blobs,
    published: Mapping[str, PublishedPackage],
    *,
    fragment: bool = False,
    read_bundles: ReadBundles | None = None,
    allowed_permissions: Collection[str] | None = None,
    read_permissions: ReadPermissions | None = None,
) -> Iterator[CatalogFinding]:
    """Yield what a catalog no longer has, or has changed, of a published one, package by package.

    Args:
        blobs: The catalog, which need not be valid.
        published: The packages of the published catalog.
        fragment: Whether the catalog is a part of the published one, so that packages may be missing.
        read_bundles: Reads new bundles that do not contain their objects, to compare CustomResourceDefinitions.
        allowed_permissions: Dangerous permissions that new bundles may gain, as ``KIND`` or ``PACKAGE/KIND``; None for
            any.
        read_permissions: Reads the images of new bundles for ``allowed_permissions``, because OLM installs what these
            contain; without it, bundles with an image are findings.
    """
    requirements = (read_bundles, allowed_permissions, read_permissions)
    packages = {package.name: package for package in group_by_package(blobs)}
    for _, old in sorted(published.items()):
        if new := packages.get(old.name):
            yield from _PackageComparison(old, new, *requirements).check()
        elif not fragment:
            hint = "Add its documents again; clusters can have it installed."
            yield CatalogFinding(
                "the published package was removed", hint=hint, package=old.name, rule="GATE-PACKAGE-REMOVED"
            )
    for name in sorted(packages.keys() - published.keys()):
        yield from _PackageComparison(PublishedPackage(name), packages[name], *requirements).check_permissions()


class _PackageComparison(Struct, frozen=True, dict=True):
    """A package, as published and as it is now."""

    old: PublishedPackage
    new: PackageBlobs
    read_bundles: ReadBundles | None = None
    allowed_permissions: Collection[str] | None = None
    read_permissions: ReadPermissions | None = None

    @cached_property
    def versions(self) -> Mapping[str, Version]:
        """The valid versions of the bundles by name; those of published bundles take precedence."""
        versions = [(bundle.name, _version(bundle)) for bundle in self.new.bundles]
        versions += [(name, bundle.version) for name, bundle in self.old.bundles.items()]
        return {name: version for name, version in versions if version is not None}

    @property
    def location(self) -> SourceLocation:
        """The location of the package's first document."""
        return next(blob.location for blob in (*self.new.packages, *self.new.members))

    def check(self) -> Iterator[CatalogFinding]:
        """Yield the findings of the package, its channels and its bundles."""
        yield from self._check_default_channel()
        channels = {channel.name: channel for channel in self.new.channels}
        permanent = [channel for channel in self.old.channels.values() if not _PRUNABLE.search(channel.name)]
        for old in sorted(permanent, key=lambda channel: channel.name):
            if new := channels.get(old.name):
                yield from self._check_entries(old, new)
                yield from self._check_head(old, new)
                yield from self._check_upgrade_paths(old, new)
            else:
                hint = "Add it again; subscriptions of clusters can refer to it."
                finding = CatalogFinding(
                    "the published channel was removed", hint=hint, package=self.new.name, rule="GATE-CHANNEL-REMOVED"
                )
                yield replace(finding, channel=old.name).at(self.location)
        yield from self._check_bundles({entry.name for channel in permanent for entry in channel.entries})
        yield from self._check_definitions()
        yield from self.check_permissions()

    def _check_default_channel(self) -> Iterator[CatalogFinding]:
        default = self.old.default_channel
        for new in self.new.packages[:1]:
            if default and default != new.default_channel:
                message = f"the published default channel {default} became {new.default_channel or 'none'}"
                hint = f"Set defaultChannel to {default}; subscriptions without a channel follow it."
                yield locate(CatalogFinding(message, hint=hint, rule="GATE-DEFAULT-CHANNEL"), new)

    def _check_entries(self, old: ChannelBlob, new: ChannelBlob) -> Iterator[CatalogFinding]:
        names = {entry.name for entry in new.entries}
        hint = "Add it again; clusters can have it installed."
        for entry in old.entries:
            if entry.name not in names:
                finding = CatalogFinding(
                    "the published bundle was removed from the channel", hint=hint, rule="GATE-BUNDLE-REMOVED"
                )
                yield locate(finding, new, entry.name)

    def _check_head(self, old: ChannelBlob, new: ChannelBlob) -> Iterator[CatalogFinding]:
        """Check that the head is the published one or a newer bundle; channels with several heads are ignored."""
        heads = (*channel_heads(old.entries), *channel_heads(new.entries))
        if len(heads) != 2 or heads[0] == heads[1]:
            return
        before, after = heads
        if moved_back(before, after, {entry.name for entry in old.entries}, self.versions):
            message = f"the head moved back from the published head {before}"
            hint = f"Make {before}, or a newer bundle that replaces it, the head of the channel."
            yield locate(CatalogFinding(message, hint=hint, rule="GATE-HEAD"), new, after)

    def _check_upgrade_paths(self, old: ChannelBlob, new: ChannelBlob) -> Iterator[CatalogFinding]:
        names = [entry.name for entry in old.entries]
        updates = _updates(new)
        updatable_before, updatable = (x.updatable(names, self.versions) for x in (_updates(old), updates))
        heads = ", ".join(updates.heads)
        for name in names:
            if heads and name in updatable_before and name not in updatable:
                message = f"the published upgrade path ends: {heads} cannot be reached from this bundle"
                hint = f"Let {heads}, or an entry from which it can be reached, replace or skip this bundle."
                yield locate(CatalogFinding(message, hint=hint, rule="GATE-UPGRADE-PATH"), new, name)

    def _check_bundles(self, names: set[str]) -> Iterator[CatalogFinding]:
        bundles = {bundle.name: bundle for bundle in self.new.bundles}
        for name, old in sorted(self.old.bundles.items()):
            new = bundles.get(name)
            if new and name in names and (changes := list(_changes(old, PublishedBundle.from_blob(new)))):
                message = f"the published bundle changed: {', '.join(changes)}"
                hint = "Restore it, and publish the change as a bundle with a new name and version."
                yield locate(CatalogFinding(message, hint=hint, rule="GATE-BUNDLE-CHANGED"), new)

    def _check_definitions(self) -> Iterator[CatalogFinding]:
        """Check that OLM does not refuse to replace the CustomResourceDefinitions that new bundles replace."""
        bundles = {bundle.name: bundle for bundle in self.new.bundles}
        hint = "Keep the scope and all versions in which objects may be stored."
        edges = new_edges(self.new.channels, bundles, bundles.keys() - self.old.bundles.keys())
        complete = read_missing_objects((blob for edge in edges for blob in edge), self.read_bundles)
        for update in refused_edges(edges, complete):
            message = f"OLM refuses the upgrade from {update.installed}: {update.definition}: {update.reason}"
            yield locate(CatalogFinding(message, hint=hint, rule="GATE-CRD"), bundles[update.next])

    def check_permissions(self) -> Iterator[CatalogFinding]:
        """Check that operators gain no dangerous permissions but the allowed ones by new updates."""
        if self.allowed_permissions is None:
            return
        # slow to import: API types
        from opmkit.bundle.permissions.kinds import allowed_kinds
        from opmkit.index.fbc.permissions import new_updates, permission_changes, read_images

        bundles = {bundle.name: bundle for bundle in self.new.bundles}
        added = [name for name, bundle in bundles.items() if self._is_new(bundle)]
        edges = new_updates(self.new.channels, bundles, added, self.old.channels.values())
        permissions = read_images((blob for edge in edges for blob in edge), self.read_permissions)
        hint = "Remove the permission from the bundle, or allow it if the operator needs it."
        allowed = allowed_kinds(self.allowed_permissions, self.new.name)
        for change in permission_changes(edges, permissions, trust_catalog=False):
            forbidden = structs.replace(
                change, gained=tuple(each for each in change.gained if each.kind not in allowed)
            )
            for line in forbidden.lines():
                yield locate(CatalogFinding(line, hint=hint, rule="GATE-PERMISSIONS"), bundles[change.next])

    def _is_new(self, bundle: BundleBlob) -> bool:
        """Whether a bundle was not published, or with other content."""
        old = self.old.bundles.get(bundle.name)
        return old is None or any(_changes(old, PublishedBundle.from_blob(bundle)))


def _updates(channel: ChannelBlob) -> ChannelUpdates:
    return ChannelUpdates(
        channel_heads(channel.entries),
        {entry.name: {*filter(None, (entry.replaces, *entry.skips))} for entry in channel.entries},
        {entry.name: entry.skip_range for entry in channel.entries if entry.skip_range},
    )


def _changes(old: PublishedBundle, new: PublishedBundle) -> Iterator[str]:
    """Yield the differences of a bundle; images with the same digest are equal, wherever they are."""
    if _identity(old.image) != _identity(new.image):
        yield f"image {old.image or 'none'} -> {new.image or 'none'}"
    if types := sorted(_changed_properties(old, new)):
        yield f"properties {', '.join(types)}"
    if images := sorted({name or image for name, image in old.related_images ^ new.related_images}):
        yield f"related images {', '.join(images)}"


def _changed_properties(old: PublishedBundle, new: PublishedBundle) -> set[str]:
    """Return the types of changed properties, without deprecation, and without metadata that was migrated."""
    types = {type_ for type_, _ in old.properties ^ new.properties} - {DEPRECATED}
    formats = [_METADATA_FORMATS & {type_ for type_, _ in bundle.properties} for bundle in (old, new)]
    return types if formats[0] == formats[1] else types - _METADATA_FORMATS


def _version(bundle: BundleBlob) -> Version | None:
    try:
        return strict_version(bundle_version(bundle))
    except ValueError:
        return None


def _identity(image: str) -> str:
    digest = _DIGEST.search(image)
    return digest[1] if digest else image
