"""The difference between two file-based catalogs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.index.diff.content import BundleContent, content_details
from opmkit.index.diff.model import (
    BundleChange,
    BundleDetail,
    ChangeKind,
    ChannelState,
    DeprecationChange,
    IndexDiff,
    PackageChange,
    PackageState,
    channel_changes,
    field_details,
)
from opmkit.index.fbc.blobs import DEPRECATED, BundleBlob, ChannelBlob, DeprecationsBlob, OtherBlob, PackageBlob
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.fbc.digests import value_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.diff.content import Part
    from opmkit.index.fbc.blobs import Blob


class _Bundle(Struct, frozen=True):
    """A bundle without large values."""

    version: str
    image: str
    deprecated: bool
    content: BundleContent

    @classmethod
    def from_blob(cls, blob: BundleBlob, shared: dict[Part, Part]) -> _Bundle:
        deprecated = any(True for _ in blob.property_values(DEPRECATED))
        return cls(bundle_version(blob), blob.image, deprecated, BundleContent.from_blob(blob, shared))

    def details(self, new: _Bundle) -> tuple[BundleDetail, ...]:
        """Return the differences to a later state of the bundle."""
        fields = ((each.version, each.image, each.deprecated) for each in (self, new))
        return (*field_details(*fields), *content_details(self.content, new.content))


class PackageSummary(Struct):
    """A package without the content of its bundles; of duplicate blobs the last one counts."""

    others: dict[str, bytes] = {}
    channels: dict[str, ChannelState] = {}
    bundles: dict[str, _Bundle] = {}
    deprecations: dict[str, str] = {}
    default_channel: str = ""

    def add(self, blob: Blob, shared: dict[Part, Part]) -> None:
        """Add a blob of the package; ``shared`` are the known parts of bundles."""
        match blob:
            case ChannelBlob():
                self.channels[blob.name] = _channel(blob)
            case BundleBlob():
                self.bundles[blob.name] = _Bundle.from_blob(blob, shared)
            case DeprecationsBlob():
                self.deprecations |= {f"{entry.schema} {entry.name}".strip(): entry.message for entry in blob.entries}
            case PackageBlob():
                self.default_channel = blob.default_channel
                icon = [blob.icon.data, blob.icon.media_type] if blob.icon else None
                self.others["description"] = value_digest(blob.description)
                self.others["icon"] = value_digest(icon)
                self.others["properties"] = value_digest(_properties(blob))
            case OtherBlob():
                self.others[f"{blob.schema} {blob.name}".strip()] = value_digest(dict(blob.content))

    @property
    def state(self) -> PackageState:
        """The default channel and the channels."""
        return PackageState(self.default_channel, self.channels)

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the bundles by name."""
        return {name: bundle.version for name, bundle in self.bundles.items()}


def _properties(blob: PackageBlob) -> list[list[JsonValue]]:
    return [[item.type, item.value] for item in blob.properties]


def summarize(blobs: Iterable[Blob], shared: dict[Part, Part]) -> Mapping[str, PackageSummary]:
    """Return the packages by name; the blobs need not be valid, and are not stored."""
    packages: defaultdict[str, PackageSummary] = defaultdict(PackageSummary)
    for blob in blobs:
        if blob.package:
            packages[blob.package].add(blob, shared)
    return packages


def diff_blobs(before: Iterable[Blob], after: Iterable[Blob]) -> IndexDiff:
    """Return the difference, ordered by package; the catalogs need not be valid.

    The blobs can be iterators: large values of bundles are not stored.
    """
    shared: dict[Part, Part] = {}
    old, new = summarize(before, shared), summarize(after, shared)
    empty = PackageSummary()
    return IndexDiff(
        tuple(
            _change(ChangeKind.classify(name, old, new), name, old.get(name, empty), new.get(name, empty))
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        )
    )


def _change(kind: ChangeKind, name: str, old: PackageSummary, new: PackageSummary) -> PackageChange:
    return PackageChange(
        kind,
        name,
        old.default_channel,
        new.default_channel,
        tuple(channel_changes(old.state, new.state, old.versions | new.versions)),
        tuple(_bundle_changes(old, new)),
        tuple(_deprecation_changes(old, new)),
        tuple(name for name in sorted({*old.others, *new.others}) if old.others.get(name) != new.others.get(name)),
    )


def _channel(blob: ChannelBlob) -> ChannelState:
    """Return the state of a channel; its head is "" if it has none or several."""
    heads = channel_heads(blob.entries)
    edges = {entry.name: tuple(sorted(filter(None, {entry.replaces, *entry.skips}))) for entry in blob.entries}
    ranges = {entry.name: entry.skip_range for entry in blob.entries if entry.skip_range}
    return ChannelState(heads[0] if len(heads) == 1 else "", edges, ranges)


def _bundle_changes(old: PackageSummary, new: PackageSummary) -> Iterator[BundleChange]:
    for name in sorted({*old.bundles, *new.bundles}):
        before, after = old.bundles.get(name), new.bundles.get(name)
        if before != after:
            bundle = after or old.bundles[name]
            kind = ChangeKind.classify(name, old.bundles, new.bundles)
            details = before.details(after) if before and after else ()
            yield BundleChange(kind, name, bundle.version, bundle.image, bundle.deprecated, details)


def _deprecation_changes(old: PackageSummary, new: PackageSummary) -> Iterator[DeprecationChange]:
    for subject in sorted({*old.deprecations, *new.deprecations}):
        before, after = old.deprecations.get(subject), new.deprecations.get(subject)
        if before != after:
            kind = ChangeKind.classify(subject, old.deprecations, new.deprecations)
            yield DeprecationChange(kind, subject, after if after is not None else before or "")
