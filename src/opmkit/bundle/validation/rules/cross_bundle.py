"""Rules across bundles: conflicts between the bundles of a package or a catalog."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.cross_bundle import BundleFinding, ComparedBundle, cross_bundle_rule
from opmkit.bundle.validation.csv_view import OWNED_CRDS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from opmkit.documents.fields import FieldPath

_SHOWN = 5
_NAME: FieldPath = ("metadata", "name")
_REPLACES: FieldPath = ("spec", "replaces")
_SUBSTITUTES_FOR: FieldPath = ("metadata", "annotations", labels.SUBSTITUTES_FOR)
_DEFAULT_CHANNEL: FieldPath = ("annotations", labels.DEFAULT_CHANNEL)


def _grouped_by(
    bundles: Iterable[ComparedBundle], keys: Callable[[ComparedBundle], Iterable[Hashable]]
) -> Iterator[tuple[Hashable, list[ComparedBundle]]]:
    """Group the bundles by key, each group with the lowest version first."""
    groups: defaultdict[Hashable, list[ComparedBundle]] = defaultdict(list)
    for bundle in bundles:
        for key in keys(bundle):
            groups[key].append(bundle)
    for key, members in groups.items():
        yield key, sorted(members, key=lambda bundle: bundle.order)


def _by_package(bundles: Iterable[ComparedBundle]) -> Iterator[tuple[str, list[ComparedBundle]]]:
    for package, members in _grouped_by(bundles, lambda bundle: [bundle.package]):
        yield str(package), members


def _version_key(bundle: ComparedBundle) -> list[Hashable]:
    return [(bundle.package, str(bundle.parsed_version), bundle.release)]


def _join(names: Iterable[str]) -> str:
    """Join distinct names for a message, only the first few of many."""
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - _SHOWN} more" if len(distinct) > _SHOWN else ""
    return ", ".join(distinct[:_SHOWN]) + more


@cross_bundle_rule(
    "ACROSS-NAME-DUPLICATE",
    Severity.ERROR,
    "duplicate bundle name",
    hint="Give each bundle a unique name, PACKAGE.vVERSION.",
    bad="demo:v1 and demo:v2, both with metadata.name demo.v1.0.0",
    good="demo:v1 with metadata.name demo.v1.0.0, demo:v2 with demo.v2.0.0",
)
def name_duplicate(bundles: Sequence[ComparedBundle]) -> Iterator[BundleFinding]:
    """Bundle names must be unique in a catalog, even across packages."""
    for name, members in _grouped_by(bundles, lambda bundle: [bundle.name]):
        for bundle in members[1:]:
            yield (
                bundle,
                Finding(f"the name {name!r} is already used by {members[0].target}", path=_NAME, subject=bundle.name),
            )


@cross_bundle_rule(
    "ACROSS-VERSION-DUPLICATE",
    Severity.ERROR,
    "duplicate version in a package",
    hint="Raise spec.version of the later bundle; for a rebuild of the same version, set spec.release.",
    bad="demo.v1.0.0 and demo.v1.0.1, both with spec.version 1.0.0",
    good="demo.v1.0.0 with spec.version 1.0.0, demo.v1.0.1 with 1.0.1",
)
def version_duplicate(bundles: Sequence[ComparedBundle]) -> Iterator[BundleFinding]:
    """Catalogs cannot order two bundles that have the same version."""
    versioned = (bundle for bundle in bundles if bundle.version)
    for _, members in _grouped_by(
        versioned, lambda bundle: [(bundle.package, str(bundle.parsed_version), bundle.release)]
    ):
        for bundle in members[1:]:
            if bundle.name != members[0].name:  # ACROSS-NAME-DUPLICATE reports a shared name
                message = f"{members[0].name} of package {bundle.package} already has version {bundle.version}"
                yield bundle, Finding(message, path=("spec", "version"), subject=bundle.version)


@cross_bundle_rule(
    "ACROSS-REPLACES-FOREIGN",
    Severity.ERROR,
    "a bundle replaces or skips a bundle of another package",
    hint="Name only bundles of the same package in spec.replaces and spec.skips.",
    bad="demo.v2.0.0 of the package demo replaces other.v1.0.0 of the package other",
    good="demo.v2.0.0 of the package demo replaces demo.v1.0.0 of the package demo",
)
def replaces_foreign(bundles: Sequence[ComparedBundle]) -> Iterator[BundleFinding]:
    """Upgrade edges connect bundles of one package."""
    packages: defaultdict[str, set[str]] = defaultdict(set)
    for bundle in bundles:
        packages[bundle.name].add(bundle.package)
    for bundle in bundles:
        for name in _replaced_names(bundle):
            if name in packages and bundle.package not in packages[name]:
                other = min(packages[name])
                yield (
                    bundle,
                    Finding(f"{bundle.name} replaces or skips {name} of package {other}", path=_REPLACES, subject=name),
                )


def _replaced_names(bundle: ComparedBundle) -> list[str]:
    """Return the names that a bundle replaces or skips."""
    return [name for name in dict.fromkeys((bundle.replaces, *bundle.skips)) if name]


@cross_bundle_rule(
    "ACROSS-REPLACES-MISSING",
    Severity.WARNING,
    "a replaced bundle does not exist",
    hint="Correct spec.replaces, or add the bundle that it names; the first bundle of a channel replaces nothing.",
    bad="demo.v1.1.0 replaces demo.v1.0.9, but the package has only demo.v1.0.0 and demo.v1.1.0",
    good="demo.v1.1.0 replaces demo.v1.0.0",
)
def replaces_missing(bundles: Sequence[ComparedBundle]) -> Iterator[BundleFinding]:
    """The upgrade path is broken: clusters with an older version installed get no upgrade.

    Bundles that another bundle of the package skips may be missing.
    """
    everywhere = {bundle.name for bundle in bundles}
    for package, members in _by_package(bundles):
        known = everywhere.union(*(bundle.skips for bundle in members))
        for bundle in members:
            if bundle.replaces and bundle.replaces not in known:
                message = f"{bundle.name} replaces {bundle.replaces}, which does not exist in package {package}"
                yield bundle, Finding(message, path=_REPLACES, subject=bundle.replaces)


@cross_bundle_rule(
    "ACROSS-REPLACES-CYCLE",
    Severity.ERROR,
    "cycle in replaces",
    hint="Let each bundle replace an earlier one.",
    bad="demo.v1.0.0 replaces demo.v1.1.0, which replaces demo.v1.0.0",
    good="demo.v1.1.0 replaces demo.v1.0.0, which replaces nothing",
)
def replaces_cycle(bundles: Sequence[ComparedBundle]) -> Iterator[BundleFinding]:
    """A cycle has no channel head, so nothing can be installed."""
    for bundle, cycle in _cycles(bundles, lambda bundle: bundle.replaces):
        yield bundle, Finding(" replaces ".join(cycle), path=_REPLACES, subject=bundle.name)


@cross_bundle_rule(
    "ACROSS-SUBSTITUTES-CYCLE",
    Severity.ERROR,
    "cycle in olm.substitutesFor",
    hint="Let each bundle substitute for an earlier one.",
    bad="demo.v1.0.0-1 substitutes for demo.v1.0.0-2, which substitutes for demo.v1.0.0-1",
    good="demo.v1.0.0-2 substitutes for demo.v1.0.0-1, which substitutes for demo.v1.0.0",
)
def substitutes_cycle(bundles: Sequence[ComparedBundle]) -> Iterator[BundleFinding]:
    """Catalogs reject such bundles; some tools never finish with them."""
    for bundle, cycle in _cycles(bundles, lambda bundle: bundle.substitutes_for):
        yield bundle, Finding(" substitutes for ".join(cycle), path=_SUBSTITUTES_FOR, subject=bundle.name)


def _cycles(
    bundles: Iterable[ComparedBundle], link: Callable[[ComparedBundle], str]
) -> Iterator[tuple[ComparedBundle, list[str]]]:
    """Yield each cycle of links between bundles of a package: a bundle, and the names from it to itself.

    A bundle that links to itself is not a cycle: rules for one bundle report it.
    """
    for _, members in _by_package(bundles):
        by_name = {bundle.name: bundle for bundle in members}
        done: set[str] = set()
        for start in by_name:
            trail: dict[str, None] = {}
            name = start
            while name in by_name and name not in done and name not in trail:
                trail[name] = None
                name = link(by_name[name])
            if name in trail and name != link(by_name[name]):
                yield by_name[name], [*list(trail)[list(trail).index(name) :], name]
            done.update(trail)


@cross_bundle_rule(
    "ACROSS-CHANNEL-HEADS",
    Severity.WARNING,
    "a channel has several heads",
    hint="Replace or skip each bundle except the newest by another bundle of the channel.",
    bad="in the channel stable, demo.v1.1.0 and demo.v1.2.0 both replace demo.v1.0.0",
    good="in the channel stable, demo.v1.2.0 replaces demo.v1.1.0, which replaces demo.v1.0.0",
)
def channel_heads(bundles: Sequence[ComparedBundle]) -> Iterator[BundleFinding]:
    """A channel has one head, the bundle that is installed. Bundles behind another head get no upgrade.

    Channels in which no bundle replaces or skips another are ordered by version and not checked.
    """
    for key, members in _grouped_by(bundles, lambda bundle: [(bundle.package, channel) for channel in bundle.channels]):
        updated = {name for bundle in members for name in _replaced_names(bundle) if name != bundle.name}
        heads = [bundle for bundle in members if bundle.name not in updated]
        names = list(dict.fromkeys(bundle.name for bundle in heads))
        if updated and len(names) > 1:
            package, channel = key if isinstance(key, tuple) else ("", "")
            message = f"channel {channel} of package {package} has several heads: {_join(reversed(names))}"
            yield heads[-1], Finding(message, path=_NAME, subject=channel)


@cross_bundle_rule(
    "ACROSS-DEFAULT-CHANNEL",
    Severity.WARNING,
    "the default channel of a package is empty",
    hint="Set the default channel of the newest bundle to a channel that has bundles, or add it to its channels.",
    bad="the newest bundle has channels alpha,beta and default channel stable, and no bundle is in stable",
    good="the newest bundle has channels beta,stable and default channel stable",
)
def default_channel(bundles: Sequence[ComparedBundle]) -> Iterator[BundleFinding]:
    """The package cannot be installed without naming a channel."""
    for package, members in _by_package(bundles):
        newest = next((bundle for bundle in reversed(members) if bundle.default_channel), None)
        channels = {channel for bundle in members for channel in bundle.channels}
        if newest and newest.default_channel not in channels:
            message = f"no bundle of package {package} is in its default channel {newest.default_channel}"
            yield newest, Finding(message, path=_DEFAULT_CHANNEL, subject=newest.default_channel)


@cross_bundle_rule(
    "ACROSS-CRD-OWNERS",
    Severity.WARNING,
    "two packages own the same CRD",
    hint="Let one package own the CRD and the other require it.",
    bad="bundles of packages demo and demo-community both own demos.demo.example.com",
    good="bundles of package demo own demos.demo.example.com, bundles of other packages require it",
)
def crd_owners(bundles: Sequence[ComparedBundle]) -> Iterator[BundleFinding]:
    """A CRD exists once in a cluster: the two packages cannot be installed together."""
    for name, members in _grouped_by(bundles, lambda bundle: bundle.owned_crds):
        packages = sorted({bundle.package for bundle in members})
        if len(packages) > 1:
            message = f"CRD {name} is owned by several packages: {_join(packages)}"
            yield members[-1], Finding(message, path=OWNED_CRDS, subject=str(name))
