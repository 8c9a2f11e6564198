"""Bundles to add to a file-based catalog: conflicts with it, and validation of the package afterwards."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import orjson
from msgspec import Struct
from msgspec.structs import replace

from opmkit.core.hints import Hint, SettingValue
from opmkit.documents import fields
from opmkit.index.convert.database_blobs import decode_icon
from opmkit.index.errors import (
    BundleExists,
    BundleImageExists,
    BundleVersionExists,
    CatalogError,
    GraphError,
    InvalidCatalog,
)
from opmkit.index.fbc.blobs import BundleBlob, EntryBlob, Icon
from opmkit.index.fbc.check.bundle import bundle_version, version_and_release
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.graph import channel_heads, check_graph
from opmkit.index.fbc.csv_metadata import MigrationLevel, migrate_bundle
from opmkit.index.fbc.findings import group_findings
from opmkit.index.fbc.from_bundle import bundle_to_blob
from opmkit.index.graph import Node, check_name_owners, claim_names, precedence
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.errors import PRESENT_HINT, missing_package_error, substitutes_error
from opmkit.index.suggestions import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opmkit.bundle.model import Bundle
    from opmkit.index.fbc.blobs import Blobs, ChannelBlob
    from opmkit.index.fbc.compat import CatalogCompat
    from opmkit.index.fbc.findings import CatalogFinding
    from opmkit.index.operations.add.options import AddOptions


class CheckedBundles(Struct, frozen=True):
    """The bundles without conflicts, by package and in the order of adding, and the errors of the others."""

    accepted: dict[str, list[NewBundle]] = {}
    errors: list[CatalogError] = []


def check_bundles(blobs: Blobs, bundles: Iterable[NewBundle], options: AddOptions) -> CheckedBundles:
    """Separate the bundles that can be added from those with conflicts.

    Of two bundles with the same name the first in sort order is accepted. Errors for existing images come first, since
    they decide the exit code.
    """
    present = _Contents.from_blobs(blobs)
    checked = CheckedBundles()
    by_name: dict[tuple[str, str], NewBundle] = {}
    for bundle in _unique_images(bundles):
        same_name = by_name.get((bundle.package, bundle.name))
        error = _name_taken(bundle, same_name) if same_name else _conflict(bundle, present, options)
        if error:
            checked.errors.append(error)
            continue
        by_name[bundle.package, bundle.name] = bundle
        for name in _claims(bundle):
            present.owners.setdefault(name, set()).add(bundle.package)
        checked.accepted.setdefault(bundle.package, []).append(bundle)
    checked.errors.sort(key=lambda error: not isinstance(error, BundleImageExists))
    return checked


def _unique_images(bundles: Iterable[NewBundle]) -> Iterator[NewBundle]:
    images: set[str] = set()
    for bundle in sorted(bundles, key=lambda bundle: bundle.order):
        if not bundle.image or bundle.image not in images:
            yield bundle
        images.add(bundle.image)


class _Contents(Struct, frozen=True):
    """The bundles of a catalog, as (package, name) and (package, image) pairs.

    ``owners`` maps each bundle name in a channel to the packages of these channels, ``updated_by`` each (package, name)
    to the (channel, bundle) pairs that replace or skip it.
    """

    names: frozenset[tuple[str, str]]
    images: frozenset[tuple[str, str]]
    owners: dict[str, set[str]]
    updated_by: dict[tuple[str, str], list[tuple[str, str]]]

    @classmethod
    def from_blobs(cls, blobs: Blobs) -> _Contents:
        updated_by: dict[tuple[str, str], list[tuple[str, str]]] = {}
        owners: dict[str, set[str]] = {}
        for channel in blobs.channels:
            for entry in channel.entries:
                owners.setdefault(entry.name, set()).add(channel.package)
                for below in filter(None, (*entry.skips, entry.replaces)):
                    owners.setdefault(below, set()).add(channel.package)
                    updated_by.setdefault((channel.package, below), []).append((channel.name, entry.name))
        return cls(
            frozenset((bundle.package, bundle.name) for bundle in blobs.bundles),
            frozenset((bundle.package, bundle.image) for bundle in blobs.bundles if bundle.image),
            owners,
            updated_by,
        )


def _conflict(bundle: NewBundle, present: _Contents, options: AddOptions) -> CatalogError | None:
    if not bundle.package:
        return missing_package_error(bundle.label)
    if not bundle.channels:
        return _without_channel(bundle)
    if bundle.substitutes_for and not options.enable_alpha:
        return substitutes_error(bundle.label, bundle.substitutes_for)
    if (bundle.package, bundle.image) in present.images:
        return BundleImageExists(
            f"bundle {bundle.image} already exists in package {bundle.package} of the catalog",
            hint=PRESENT_HINT,
        )
    if (bundle.package, bundle.name) in present.names and (error := _overwrite_conflict(bundle, present, options)):
        return error
    try:
        claims = _claims(bundle)
        owned = ((name, present.owners.get(name, set())) for name in claims)
        check_name_owners(claims, [(name, min(by)) for name, by in owned if by and bundle.package not in by])
    except GraphError as error:
        return error
    return None


def _claims(bundle: NewBundle) -> dict[str, str]:
    node = Node(bundle.name, bundle.version, bundle.replaces, bundle.skips)
    return claim_names([(bundle.package, node)])


def _without_channel(bundle: NewBundle) -> CatalogError:
    return CatalogError(
        f"{bundle.label}: cannot be added: no channel",
        hint=Hint.any_of("set channels in its annotations", Hint("pass {}", IndexSetting.CHANNEL)),
    )


def _name_taken(bundle: NewBundle, other: NewBundle) -> BundleExists:
    return BundleExists(
        f"{bundle.label}: cannot be added: its name is used by {other.image or 'another bundle'} of the same command",
        hint="give its ClusterServiceVersion its own name",
    )


def _overwrite_conflict(bundle: NewBundle, present: _Contents, options: AddOptions) -> CatalogError | None:
    """Return the error if the bundle cannot overwrite the existing one of the same name, else None."""
    if not options.overwrite_latest:
        return BundleVersionExists(
            f"bundle {bundle.name} already exists in package {bundle.package}",
            hint=Hint.any_of(
                "give the new bundle's ClusterServiceVersion its own name and version",
                Hint(
                    "replace the existing bundle with {} if it is the head of its channels",
                    IndexSetting.OVERWRITE_LATEST,
                ),
            ),
        )
    if options.mode is not UpdateMode.REPLACES:
        return BundleExists(
            f"{bundle.label}: cannot be added: its name is used by a bundle of the catalog",
            hint="overwrite it in the mode replaces",
        )
    updated_by = present.updated_by.get((bundle.package, bundle.name))
    if not updated_by:
        return None
    edges = ", ".join(f"{name} in channel {channel}" for channel, name in sorted(set(updated_by)))
    return GraphError(
        f"bundle {bundle.name} of package {bundle.package}: cannot be overwritten: replaced or skipped by {edges}",
        hint="add the change as a new version: only a bundle that nothing replaces or skips can be overwritten",
    )


MAX_SKIPS = 8
"""Skips that a hint suggests."""
MAX_SUGGESTIONS = 2


def validate_package(
    package: Blobs, added: Sequence[NewBundle], compat: CatalogCompat, insert: Callable[[NewBundle], Blobs]
) -> None:
    """Raise InvalidCatalog if a package is invalid with the added bundles.

    ``insert`` returns the package with one of the bundles, which may have other edges; suggestions are tested with it.
    """
    findings = check_blobs(package, compat)
    if not findings:
        return
    names = " and ".join(bundle.name for bundle in added)
    first, *others = map(_in_one_line, group_findings(findings))
    lines = [f"package {added[0].package}: invalid with {names}: {first}", *others]
    invalid = {finding.channel for finding in findings if finding.channel}
    channels = [channel for channel in package.channels if channel.name in invalid and channel.entries]
    lines += _outlines(channels)
    hints: list[Hint | str] = [
        *_suggestions(package, channels, added, insert),
        *(finding.hint for finding in findings),
    ]
    raise InvalidCatalog(lines[0], details=lines[1:], hint=next((hint for hint in hints if hint), ""))


def _outlines(channels: Iterable[ChannelBlob]) -> Iterator[str]:
    """Yield the chains of the channels; those of several channels only once."""
    names: dict[str, list[str]] = {}
    for channel in channels:
        names.setdefault("; ".join(_chains(channel)), []).append(channel.name)
    for chains, group in names.items():
        yield f"{'channel' if len(group) == 1 else 'channels'} {', '.join(group)} would be: {chains}"


def _in_one_line(group: Sequence[CatalogFinding]) -> str:
    """Return the first finding of a group, and the channels of the others."""
    channels = [finding.channel for finding in group[1:] if finding.channel]
    return f"{group[0]}; also in {', '.join(channels)}" if channels else str(group[0])


def _chains(channel: ChannelBlob) -> Iterator[str]:
    """Yield the replaces chain of each head, or of the last entry if no entry is a head."""
    by_name = {entry.name: entry for entry in channel.entries}
    for head in channel_heads(channel.entries) or [channel.entries[-1].name]:
        names = [head]
        while (entry := by_name.get(names[-1])) and entry.replaces and entry.replaces not in names:
            names.append(entry.replaces)
        skips = by_name[head].skips
        yield shorten(names, " -> ") + (f" ({head} skips {', '.join(skips)})" if skips else "")


def _suggestions(
    package: Blobs, channels: Iterable[ChannelBlob], added: Sequence[NewBundle], insert: Callable[[NewBundle], Blobs]
) -> Iterator[Hint]:
    """Yield hints for those of the bundles that head a channel with an invalid graph."""
    broken = [channel for channel in channels if check_graph(channel.entries)]
    heads = {head for channel in broken for head in channel_heads(channel.entries)}
    for bundle in added:
        if bundle.name in heads:
            yield _hint_for_lower_version(package, broken, bundle) or _hint_for_edges(package, bundle, insert)


def _hint_for_lower_version(package: Blobs, channels: Iterable[ChannelBlob], bundle: NewBundle) -> Hint:
    """Return the hint for a bundle with a lower version than another head, empty if there is no such head."""
    for channel in channels:
        heads = channel_heads(channel.entries)
        if bundle.name in heads and (top := _by_version(package, heads)[-1]) != bundle.name:
            return Hint.any_of(
                f"{bundle.name} is below {top}: replace or skip it in an entry of channel {channel.name} above it",
                Hint("add it to another channel with {}", IndexSetting.CHANNEL),
            )
    return Hint()


def _hint_for_edges(package: Blobs, bundle: NewBundle, insert: Callable[[NewBundle], Blobs]) -> Hint:
    """Return the hint with edges that make all channels of a bundle valid, empty if no short enough ones are found."""
    valid = [edges for edges, candidate in _candidates(package, bundle) if _is_valid(candidate, insert)]
    if not valid:
        return Hint()
    suggested = valid[:MAX_SUGGESTIONS]
    placeholders = ", or ".join(" ".join(["{}"] * len(edges)) for edges in suggested)
    return Hint(f"let {{}} update from existing bundles: {placeholders}", bundle.name, *chain(*suggested))


def _is_valid(bundle: NewBundle, insert: Callable[[NewBundle], Blobs]) -> bool:
    try:
        channels = insert(bundle).channels
    except GraphError:
        return False
    return not any(check_graph(channel.entries) for channel in channels if channel.name in bundle.channels)


def _candidates(package: Blobs, bundle: NewBundle) -> Iterator[tuple[tuple[SettingValue, ...], NewBundle]]:
    """Yield settings for other edges, the simplest first, and the bundle with these edges."""
    channels = [channel for channel in package.channels if channel.name in bundle.channels]
    names = _by_version(package, {entry.name for channel in channels for entry in channel.entries} - {bundle.name})
    if not names:
        return
    top, heads = names[-1], {head for channel in channels for head in channel_heads(channel.entries)}
    replacing = replace(bundle, replaces=top)
    replaces_top = IndexSetting.REPLACES.with_value(top)
    yield (replaces_top,), replacing
    for skippable, base in ((heads, bundle), (heads, replacing), (names, bundle)):
        below = [name for name in names if name in skippable and name != base.replaces]
        skips = tuple(dict.fromkeys([*bundle.skips, *below]))
        if skips != bundle.skips and len(skips) <= MAX_SKIPS:
            replaces = (replaces_top,) if base is replacing else ()
            yield (*replaces, IndexSetting.SKIPS.with_value(",".join(skips))), replace(base, skips=skips)


def _by_version(package: Blobs, names: Iterable[str]) -> list[str]:
    """Sort bundle names by ascending version, those without a valid version first."""
    versions = {bundle.name: bundle_version(bundle) for bundle in package.bundles}

    def order(name: str) -> tuple[object, ...]:
        try:
            return precedence(versions[name]), name
        except (GraphError, KeyError):
            return (), name

    return sorted(names, key=order)


class NewBundle(Struct, frozen=True):
    """The blob of a bundle, its channels and edges, and the metadata that a new package takes from it.

    ``version`` is that of the ClusterServiceVersion. Absent texts are empty.
    """

    blob: BundleBlob
    channels: tuple[str, ...]
    default_channel: str = ""
    version: str = ""
    replaces: str = ""
    skips: tuple[str, ...] = ()
    skip_range: str = ""
    substitutes_for: str = ""
    icon: Icon | None = None
    description: str = ""

    @classmethod
    def from_bundle(cls, bundle: Bundle, level: MigrationLevel = MigrationLevel.NONE) -> NewBundle:
        """Convert a bundle, its blob to a migration level.

        Raises:
            InvalidBundle: See :func:`opmkit.index.fbc.from_bundle.bundle_to_blob`.
            InvalidCatalog: See :func:`opmkit.index.fbc.csv_metadata.migrate_bundle`.
        """
        blob = bundle_to_blob(bundle)
        spec = fields.mapping(orjson.loads(bundle.csv.json)["spec"], "spec")
        csv, annotations = bundle.csv, bundle.annotations
        return cls(
            blob if level is MigrationLevel.NONE else migrate_bundle(blob),
            tuple(dict.fromkeys(annotations.channels)),
            annotations.default_channel,
            csv.version,
            csv.replaces,
            tuple(dict.fromkeys(filter(None, csv.skips))),
            csv.skip_range,
            csv.substitutes_for,
            decode_icon(spec.get("icon")),
            fields.text(spec.get("description"), "spec.description"),
        )

    @property
    def name(self) -> str:
        """The name of the ClusterServiceVersion."""
        return self.blob.name

    @property
    def package(self) -> str:
        """The name of its package."""
        return self.blob.package

    @property
    def image(self) -> str:
        """The image of the bundle, or "" if it has none."""
        return self.blob.image

    @property
    def label(self) -> str:
        """The bundle with its image, for error messages."""
        return f"bundle {self.name}{f' of {self.image}' if self.image else ''}"

    @property
    def entry(self) -> EntryBlob:
        """Its channel entry."""
        return EntryBlob(self.name, self.replaces, self.skips, self.skip_range)

    @property
    def order(self) -> tuple[object, ...]:
        """Sort key: version, release, name and image; bundles with an invalid version come last."""
        release = version_and_release(self.blob)[1]
        try:
            rank = precedence(f"0.0.0-{release}")[3][1] if release else ()
            return (0, precedence(self.version), rank, self.name, self.image)
        except GraphError:
            return (1, self.version, release, self.name, self.image)
