"""The difference between two file-based catalogs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.index.fbc.blobs import DEPRECATED, BundleBlob, ChannelBlob, DeprecationsBlob, OtherBlob, PackageBlob
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.operations.diff.model import (
    BundleChange,
    ChangeKind,
    ChannelState,
    DeprecationChange,
    IndexDiff,
    PackageChange,
    PackageState,
    channel_changes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.fbc.blobs import Blob, Blobs


@dataclass(slots=True)
class _Package:
    """The blobs of a package; of duplicates the last one counts."""

    others: dict[str, object] = field(default_factory=dict)
    channels: dict[str, ChannelState] = field(default_factory=dict)
    bundles: dict[str, BundleBlob] = field(default_factory=dict)
    deprecations: dict[str, str] = field(default_factory=dict)
    default_channel: str = ""

    def add(self, blob: Blob) -> None:
        match blob:
            case ChannelBlob():
                self.channels[blob.name] = _channel(blob)
            case BundleBlob():
                self.bundles[blob.name] = blob
            case DeprecationsBlob():
                self.deprecations |= {f"{entry.schema} {entry.name}".strip(): entry.message for entry in blob.entries}
            case PackageBlob():
                self.default_channel = blob.default_channel
                self.others |= {"description": blob.description, "icon": blob.icon, "properties": blob.properties}
            case OtherBlob():
                self.others[f"{blob.schema} {blob.name}".strip()] = blob

    @property
    def state(self) -> PackageState:
        return PackageState(self.default_channel, self.channels)


def diff_blobs(before: Blobs, after: Blobs) -> IndexDiff:
    """Return the difference, ordered by package; the catalogs need not be valid."""
    old, new = _packages(before), _packages(after)
    empty = _Package()
    return IndexDiff(
        tuple(
            _change(ChangeKind.classify(name, old, new), name, old.get(name, empty), new.get(name, empty))
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        )
    )


def _change(kind: ChangeKind, name: str, old: _Package, new: _Package) -> PackageChange:
    return PackageChange(
        kind,
        name,
        old.default_channel,
        new.default_channel,
        tuple(channel_changes(old.state, new.state)),
        tuple(_bundle_changes(old, new)),
        tuple(_deprecation_changes(old, new)),
        tuple(name for name in sorted({*old.others, *new.others}) if old.others.get(name) != new.others.get(name)),
    )


def _packages(blobs: Blobs) -> dict[str, _Package]:
    packages: defaultdict[str, _Package] = defaultdict(_Package)
    for blob in blobs:
        if blob.package:
            packages[blob.package].add(blob)
    return dict(packages)


def _channel(blob: ChannelBlob) -> ChannelState:
    """Return the head, "" for none or several, and the targets of each entry, among them its skip range."""
    heads = channel_heads(blob.entries)
    edges = {
        entry.name: tuple(sorted(filter(None, {entry.replaces, *entry.skips, entry.skip_range})))
        for entry in blob.entries
    }
    return ChannelState(heads[0] if len(heads) == 1 else "", edges)


def _bundle_changes(old: _Package, new: _Package) -> Iterator[BundleChange]:
    for name in sorted({*old.bundles, *new.bundles}):
        if old.bundles.get(name) != new.bundles.get(name):
            bundle = new.bundles.get(name) or old.bundles[name]
            deprecated = any(True for _ in bundle.property_values(DEPRECATED))
            kind = ChangeKind.classify(name, old.bundles, new.bundles)
            yield BundleChange(kind, name, bundle_version(bundle), bundle.image, deprecated)


def _deprecation_changes(old: _Package, new: _Package) -> Iterator[DeprecationChange]:
    for subject in sorted({*old.deprecations, *new.deprecations}):
        before, after = old.deprecations.get(subject), new.deprecations.get(subject)
        if before != after:
            kind = ChangeKind.classify(subject, old.deprecations, new.deprecations)
            yield DeprecationChange(kind, subject, after if after is not None else before or "")
