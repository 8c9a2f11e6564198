"""What differs between two file-based catalogs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.index.fbc.blobs import DEPRECATED, BundleBlob, ChannelBlob, DeprecationsBlob, OtherBlob, PackageBlob
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.operations.diff.model import (
    BundleChange,
    ChannelState,
    DeprecationChange,
    IndexDiff,
    PackageChange,
    PackageState,
    channel_changes,
    kind_of_change,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.index.fbc.blobs import Blob, Blobs
    from opmkit.index.operations.diff.model import Kind


@dataclass(slots=True)
class _Package:
    """What a catalog has of a package; of blobs that are there twice the last."""

    others: dict[str, object] = field(default_factory=dict)
    channels: dict[str, ChannelState] = field(default_factory=dict)
    bundles: dict[str, BundleBlob] = field(default_factory=dict)
    deprecations: dict[str, str] = field(default_factory=dict)
    default_channel: str = ""

    def put(self, blob: Blob) -> None:
        match blob:
            case ChannelBlob():
                self.channels[blob.name] = _channel(blob)
            case BundleBlob():
                self.bundles[blob.name] = blob
            case DeprecationsBlob():
                self.deprecations |= {f"{one.schema} {one.name}".strip(): one.message for one in blob.entries}
            case PackageBlob():
                self.default_channel = blob.default_channel
                self.others |= {"description": blob.description, "icon": blob.icon, "properties": blob.properties}
            case OtherBlob():
                self.others[f"{blob.schema} {blob.name}".strip()] = blob

    @property
    def state(self) -> PackageState:
        return PackageState(self.default_channel, self.channels)


def diff_blobs(before: Blobs, after: Blobs) -> IndexDiff:
    """What differs, package by package; they need not be valid."""
    old, new = _packages(before), _packages(after)
    nothing = _Package()
    return IndexDiff(
        tuple(
            _change(kind_of_change(name, old, new), name, old.get(name, nothing), new.get(name, nothing))
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        )
    )


def _change(kind: Kind, name: str, old: _Package, new: _Package) -> PackageChange:
    return PackageChange(
        kind,
        name,
        old.default_channel,
        new.default_channel,
        tuple(channel_changes(old.state, new.state)),
        tuple(_bundles(old, new)),
        tuple(_deprecations(old, new)),
        tuple(name for name in sorted({*old.others, *new.others}) if old.others.get(name) != new.others.get(name)),
    )


def _packages(blobs: Blobs) -> dict[str, _Package]:
    packages: defaultdict[str, _Package] = defaultdict(_Package)
    for blob in blobs:
        if blob.package:
            packages[blob.package].put(blob)
    return dict(packages)


def _channel(blob: ChannelBlob) -> ChannelState:
    """The head, "" for none or several, and what each entry updates from, its skip range being one of it."""
    heads = channel_heads(blob.entries)
    edges = {
        entry.name: tuple(sorted(filter(None, {entry.replaces, *entry.skips, entry.skip_range})))
        for entry in blob.entries
    }
    return ChannelState(heads[0] if len(heads) == 1 else "", edges)


def _bundles(old: _Package, new: _Package) -> Iterator[BundleChange]:
    for name in sorted({*old.bundles, *new.bundles}):
        if old.bundles.get(name) != new.bundles.get(name):
            bundle = new.bundles.get(name) or old.bundles[name]
            deprecated = any(True for _ in bundle.property_values(DEPRECATED))
            kind = kind_of_change(name, old.bundles, new.bundles)
            yield BundleChange(kind, name, bundle_version(bundle), bundle.image, deprecated)


def _deprecations(old: _Package, new: _Package) -> Iterator[DeprecationChange]:
    for subject in sorted({*old.deprecations, *new.deprecations}):
        before, after = old.deprecations.get(subject), new.deprecations.get(subject)
        if before != after:
            kind = kind_of_change(subject, old.deprecations, new.deprecations)
            yield DeprecationChange(kind, subject, after if after is not None else before or "")
