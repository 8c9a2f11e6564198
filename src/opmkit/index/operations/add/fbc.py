"""Add bundles to a file-based catalog: their blobs, channel entries and new packages."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from opmkit.bundle import labels
from opmkit.bundle.kinds import CSV_KIND
from opmkit.core.hints import Hint
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import member
from opmkit.index.change import EditResult
from opmkit.index.errors import CatalogError, GraphError, combine_errors
from opmkit.index.fbc.blobs import CSV_METADATA, Blobs, PackageBlob
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.graph import channel_heads
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.csv_metadata import bundle_objects
from opmkit.index.fbc.packages import other_package_warnings, replace_packages, select_packages
from opmkit.index.graph import Node, precedence, substituted_edges
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.fbc_checks import check_bundles, validate_package
from opmkit.index.operations.add.fbc_entries import ChannelEdit, insert_bundle, insert_bundles_by_version, known_entries
from opmkit.index.operations.add.options import AddOptions, Placement
from opmkit.index.suggestions import did_you_mean, join_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blobs, BundleBlob, ChannelBlob, EntryBlob
    from opmkit.index.graph.values import Precedence
    from opmkit.index.operations.add.fbc_checks import NewBundle


def add_bundles(
    blobs: Blobs,
    bundles: Sequence[NewBundle],
    options: AddOptions | None = None,
    compat: CatalogCompat = CatalogCompat.NEWEST,
) -> EditResult:
    """Add bundles in ascending order of version.

    In the mode replaces a bundle has the edges that it or ``options.placement`` names. In the semver modes its version
    determines its edges. Other entries are not changed unless an edge requires it.

    Atomic unless permissive; then bundles that cannot be added are returned as failures.

    Raises:
        BundleImageExists, BundleVersionExists, BundleExists: The catalog or another new bundle has the image or name.
        GraphError: An edge or default channel is invalid.
        InvalidCatalog: A changed package is invalid by the rules of ``compat``; the message shows the channel's graph.
        CatalogError: Another error, or several errors combined.
    """
    adder = _Adder(options or AddOptions(), compat)
    adder.check_placement(bundles)
    checked = check_bundles(blobs, adder.place(bundles), adder.options)
    errors = list(checked.errors)
    changed = select_packages(blobs, checked.accepted)
    for package, accepted in checked.accepted.items():
        try:
            changed[package] = adder.add_together(changed[package], accepted)
        except CatalogError as error:
            if adder.options.permissive:
                changed[package], failures = adder.add_individually(changed[package], accepted)
                errors += failures
            else:
                errors.append(error)
    if errors and not adder.options.permissive:
        raise combine_errors(errors)
    result = replace_packages(blobs, changed)
    added = [bundle for accepted in checked.accepted.values() for bundle in accepted]
    warnings = (
        *_missing_replaces(result, added, adder.options.mode),
        *_new_channels(blobs, added, adder.placement),
        *other_package_warnings(result, changed, compat),
    )
    return EditResult(result, warnings=warnings, failures=tuple(errors))


class _Adder(Struct, frozen=True):
    """The options of one ``add``, applied package by package."""

    options: AddOptions
    compat: CatalogCompat

    @property
    def placement(self) -> Placement:
        return self.options.placement or Placement()

    def check_placement(self, bundles: Sequence[NewBundle]) -> None:
        """Raise CatalogError for edges given for several bundles, or in a mode where versions determine them."""
        edges = [self.placement.replaces, self.placement.skips]
        if len(bundles) > 1 and any(given is not None for given in (*edges, self.placement.skip_range)):
            raise CatalogError(
                "replaces, skips and skip range: unsupported for several bundles",
                hint="add the bundles one by one",
            )
        if self.options.mode is not UpdateMode.REPLACES and any(given is not None for given in edges):
            raise CatalogError(
                f"replaces and skips: unsupported in the mode {self.options.mode}: versions determine the updates",
                hint="omit them, or add the bundle in the mode replaces",
            )

    def place(self, bundles: Sequence[NewBundle]) -> Iterator[NewBundle]:
        """Yield the bundles with the channels and edges of the placement."""
        overrides = {field: value for field, value in asdict(self.placement).items() if value is not None}
        return (structs.replace(bundle, **overrides) for bundle in bundles)

    def add_together(self, package: Blobs, bundles: Sequence[NewBundle]) -> Blobs:
        """Return a package with all the bundles; raise CatalogError, or InvalidCatalog for an invalid result."""
        bundles = [self._drop_unknown_default(package, bundle) for bundle in bundles]
        if self.options.mode is UpdateMode.REPLACES:
            result = self._insert_with_own_edges(package, bundles)
            default = self.placement.default_channel or default_channel(package, result, bundles)
        else:
            skip_patch = self.options.mode is UpdateMode.SEMVER_SKIPPATCH
            result, default = insert_bundles_by_version(package, bundles, skip_patch=skip_patch)
        result = set_default_channel(result, default, bundles)
        base = package if len(bundles) == 1 else result
        validate_package(result, bundles, self.compat, lambda other: self._insert_with_own_edges(base, [other]))
        return result

    def _drop_unknown_default(self, package: Blobs, bundle: NewBundle) -> NewBundle:
        """Ignore the default channel of a bundle if the placement's channels exclude it."""
        known = {*(channel.name for channel in package.channels), *bundle.channels}
        placed = self.placement.channels is not None and self.placement.default_channel is None
        return structs.replace(bundle, default_channel="") if placed and bundle.default_channel not in known else bundle

    def _insert_with_own_edges(self, package: Blobs, bundles: Sequence[NewBundle]) -> Blobs:
        for bundle in bundles:
            edit = Substitution.resolve(package, bundle).edit_channel if self.options.enable_alpha else None
            package = insert_bundle(package, bundle, edit, alone=self.placement.channels is not None)
        return package

    def add_individually(self, package: Blobs, bundles: Sequence[NewBundle]) -> tuple[Blobs, list[CatalogError]]:
        """Add every bundle that can be added, in any order; return the package and the errors of the others."""
        waiting, errors = list(bundles), list[CatalogError]()
        while waiting:
            failed: list[NewBundle] = []
            errors = []
            for bundle in waiting:
                try:
                    package = self.add_together(package, [bundle])
                except CatalogError as error:
                    failed.append(bundle)
                    errors.append(error)
            if len(failed) == len(waiting):
                break
            waiting = failed
        return package, errors


def _new_channels(before: Blobs, added: Sequence[NewBundle], placement: Placement) -> Iterator[str]:
    """Yield a warning for each channel of the placement that an existing package lacks, since it may be a typo."""
    for package in dict.fromkeys(bundle.package for bundle in added):
        known = sorted(channel.name for channel in before.channels if channel.package == package)
        for name in placement.channels or () if known else ():
            if name not in known:
                hint = did_you_mean(name, known) or f"existing channels: {join_names(known)}"
                yield f'channel "{name}" of package "{package}" is new; {hint}'


def _missing_replaces(blobs: Blobs, added: Sequence[NewBundle], mode: UpdateMode) -> Iterator[str]:
    """Yield a warning for each bundle that replaces a missing one."""
    names = {(bundle.package, bundle.name) for bundle in blobs.bundles}
    for bundle in added if mode is UpdateMode.REPLACES else ():
        if (
            bundle.replaces
            and (bundle.package, bundle.name) in names
            and (bundle.package, bundle.replaces) not in names
        ):
            yield f"bundle {bundle.name} replaces {bundle.replaces}, which package {bundle.package} does not have"


_FLOOR = precedence("0.0.0")


def default_channel(before: Blobs, after: Blobs, bundles: Sequence[NewBundle]) -> str:
    """Return the default channel of a package: the one named by its highest version, else the current one.

    As in an index database, only a bundle with at least the highest version so far changes it. A new package with a
    single channel needs no named default.

    Raises:
        GraphError: No default channel is named, or the package does not have it.
    """
    named = next((package.default_channel for package in before.packages), "")
    highest = max([_FLOOR, *(_precedence_or_lowest(bundle_version(bundle)) for bundle in before.bundles)])
    for bundle in bundles:
        version = _precedence_or_lowest(bundle.version)
        if version >= highest:
            highest, named = version, bundle.default_channel or named
    channels = sorted(channel.name for channel in after.channels)
    if named in channels:
        return named
    if not named and len(channels) == 1:
        return channels[0]
    reason = f"its bundles name {named}, which it does not have" if named else "its bundles name none"
    raise GraphError(
        f"package {bundles[0].package} has no default channel: {reason}; its channels are: {', '.join(channels)}",
        hint=Hint.any_of(
            Hint("pass one of them with {}", IndexSetting.DEFAULT_CHANNEL), "set one in the annotations of the bundle"
        ),
    )


def set_default_channel(package: Blobs, channel: str, bundles: Sequence[NewBundle]) -> Blobs:
    """Return the package with this default channel; a new one gets the icon and description of the bundle at its head.

    Of several heads the first among ``bundles`` counts.
    """
    if package.packages:
        if package.packages[0].default_channel == channel:
            return package
        return replace(package, packages=tuple(replace(blob, default_channel=channel) for blob in package.packages))
    heads = {head for blob in package.channels if blob.name == channel for head in channel_heads(blob.entries)}
    head = next((bundle for bundle in bundles if bundle.name in heads), bundles[-1])
    return replace(package, packages=(PackageBlob(head.package, channel, head.icon, head.description),))


def _precedence_or_lowest(version: str) -> Precedence:
    """Return the precedence of a version, the lowest for an invalid one, which other checks report."""
    try:
        return precedence(version)
    except GraphError:
        return precedence("")


class Substitution(Struct, frozen=True):
    """A bundle to add, and the substitutions of its package.

    ``nodes`` are the other bundles of the package with their edges in some channel. The annotations in their objects or
    CSV metadata name the bundles that they substitute.
    """

    bundle: NewBundle
    nodes: Mapping[str, Node]

    @classmethod
    def resolve(cls, package: Blobs, bundle: NewBundle) -> Substitution:
        """Find the substitutions of a package; raise GraphError for invalid versions."""
        versions = {blob.name: bundle_version(blob) for blob in package.bundles}
        others = (blob for blob in package.bundles if blob.name != bundle.name)
        links = _chains({blob.name: base for blob in others if (base := _substitutes_for(blob))}, versions)
        nodes = (
            Node(name, versions.get(name, ""), entry.replaces, entry.skips, links.get(name, ""))
            for name, entry in known_entries(package).items()
        )
        return cls(bundle, {node.name: node for node in nodes if node.name != bundle.name})

    def edit_channel(self, channel: ChannelBlob) -> ChannelEdit:
        """Return the channel with the edges after the add.

        Raises:
            GraphError: See :func:`opmkit.index.graph.substituted_edges`.
        """
        entries_by_name = {entry.name: entry for entry in channel.entries}
        present = {
            name: structs.replace(node, replaces=entry.replaces, skips=entry.skips)
            if (entry := entries_by_name.get(name))
            else node
            for name, node in self.nodes.items()
        }
        new = self.bundle
        node = Node(new.name, new.version, new.replaces, new.skips, new.substitutes_for)
        changed = substituted_edges(present, [node])
        entries = tuple(_with_edges(entry, changed) for entry in channel.entries)
        others = changed.keys() & entries_by_name.keys() - {new.name}
        required = any(new.name in changed[name].targets for name in others)
        if entries != channel.entries:
            channel = replace(channel, entries=entries)
        return ChannelEdit(channel, _with_edges(new.entry, changed), required)


def _with_edges(entry: EntryBlob, changed: Mapping[str, Node]) -> EntryBlob:
    node = changed.get(entry.name)
    return structs.replace(entry, replaces=node.replaces, skips=node.skips) if node else entry


def _chains(annotated: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, str]:
    """Map each annotated bundle to the one that it substitutes, when all substitutes of a bundle form a chain.

    A chain is in ascending order of version.
    """
    links: dict[str, str] = {}
    below: dict[str, str] = {}
    for name in sorted(annotated, key=lambda name: precedence(versions[name])):
        base, seen = annotated[name], {name}
        while base in annotated and base not in seen:
            seen.add(base)
            base = annotated[base]
        links[name] = below.get(base, base)
        below[base] = name
    return links


def _substitutes_for(bundle: BundleBlob) -> str:
    """Return the name of the bundle that one substitutes, or "" if there is none or if the catalog has no CSV data."""
    for value in bundle.property_values(CSV_METADATA):
        return _annotation(value)
    with contextlib.suppress(InvalidDocument):
        for value in bundle_objects(bundle):
            if isinstance(value, dict) and value.get("kind") == CSV_KIND:
                return _annotation(member(value, "metadata"))
    return ""


def _annotation(metadata: JsonValue) -> str:
    annotations = member(metadata, "annotations") if isinstance(metadata, dict) else None
    text = annotations.get(labels.SUBSTITUTES_FOR) if isinstance(annotations, dict) else None
    return text if isinstance(text, str) else ""
