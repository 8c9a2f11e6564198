"""Rules over many bundles: what can't be right beside each other in a package or a catalog."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.cross_bundle import BundleFinding, Summary, cross_bundle_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

_SHOWN = 5


def _grouped(
    bundles: Iterable[Summary], keys: Callable[[Summary], Iterable[Hashable]]
) -> Iterator[tuple[Hashable, list[Summary]]]:
    """The bundles that share a key, the lowest version first, for each key that several share."""
    groups: defaultdict[Hashable, list[Summary]] = defaultdict(list)
    for bundle in bundles:
        for key in keys(bundle):
            groups[key].append(bundle)
    for key, members in groups.items():
        yield key, sorted(members, key=lambda bundle: (bundle.order, bundle.name, bundle.target))


def _packages(bundles: Iterable[Summary]) -> Iterator[tuple[str, list[Summary]]]:
    for package, members in _grouped(bundles, lambda bundle: [bundle.package]):
        yield str(package), members


def _listed(names: Iterable[str]) -> str:
    """Names for a message, the first few of many."""
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - _SHOWN} more" if len(distinct) > _SHOWN else ""
    return ", ".join(distinct[:_SHOWN]) + more


@cross_bundle_rule(
    "ACROSS-NAME-DUPLICATE",
    Severity.ERROR,
    "two bundles have the same name",
    hint="Give each bundle a name of its own, PACKAGE.vVERSION.",
    bad="demo:v1 and demo:v2, both with metadata.name demo.v1.0.0",
    good="demo:v1 with metadata.name demo.v1.0.0, demo:v2 with demo.v2.0.0",
)
def name_duplicate(bundles: Sequence[Summary]) -> Iterator[BundleFinding]:
    """A catalog knows bundles by their names, whichever package they are of, and takes each name once."""
    for name, members in _grouped(bundles, lambda bundle: [bundle.name]):
        for bundle in members[1:]:
            yield bundle, Finding(f"{members[0].target} has the name {name!r} already", subject=bundle.name)


@cross_bundle_rule(
    "ACROSS-VERSION-DUPLICATE",
    Severity.ERROR,
    "two bundles of a package have the same version",
    hint="Raise spec.version of the later one; for another build of the same version, set spec.release.",
    bad="demo.v1.0.0 and demo.v1.0.1, both with spec.version 1.0.0",
    good="demo.v1.0.0 with spec.version 1.0.0, demo.v1.0.1 with 1.0.1",
)
def version_duplicate(bundles: Sequence[Summary]) -> Iterator[BundleFinding]:
    """Which of the two comes first can't be told, so that no catalog can order them by version."""
    versioned = (bundle for bundle in bundles if bundle.version)
    for _, members in _grouped(versioned, lambda bundle: [(bundle.package, str(bundle.order), bundle.release)]):
        for bundle in members[1:]:
            if bundle.name != members[0].name:  # a shared name is told by its own rule
                message = f"{members[0].name} of the package {bundle.package} is of version {bundle.version} already"
                yield bundle, Finding(message, subject=bundle.version)


@cross_bundle_rule(
    "ACROSS-REPLACES-FOREIGN",
    Severity.ERROR,
    "a bundle replaces or skips one of another package",
    hint="Name bundles of the same package alone in spec.replaces and spec.skips.",
    bad="demo.v2.0.0 of the package demo replaces other.v1.0.0 of the package other",
    good="demo.v2.0.0 of the package demo replaces demo.v1.0.0 of the package demo",
)
def replaces_foreign(bundles: Sequence[Summary]) -> Iterator[BundleFinding]:
    """Updates lead from bundle to bundle within one package."""
    packages: defaultdict[str, set[str]] = defaultdict(set)
    for bundle in bundles:
        packages[bundle.name].add(bundle.package)
    for bundle in bundles:
        for name in _updated(bundle):
            if name in packages and bundle.package not in packages[name]:
                other = min(packages[name])
                yield bundle, Finding(f"{bundle.name} is to update {name}, of the package {other}", subject=name)


def _updated(bundle: Summary) -> list[str]:
    """The names that a bundle replaces and skips."""
    return [name for name in dict.fromkeys((bundle.replaces, *bundle.skips)) if name]


@cross_bundle_rule(
    "ACROSS-REPLACES-MISSING",
    Severity.WARNING,
    "a bundle replaces one that is not there",
    hint="Correct spec.replaces, or add the bundle that it names; the first bundle of a channel replaces none.",
    bad="demo.v1.1.0 replaces demo.v1.0.9, but there are demo.v1.0.0 and demo.v1.1.0 alone",
    good="demo.v1.1.0 replaces demo.v1.0.0",
)
def replaces_missing(bundles: Sequence[Summary]) -> Iterator[BundleFinding]:
    """The chain of updates breaks there: who has an older version installed is not led on.

    What some bundle of the package skips need not be there.
    """
    everywhere = {bundle.name for bundle in bundles}
    for package, members in _packages(bundles):
        known = everywhere.union(*(bundle.skips for bundle in members))
        for bundle in members:
            if bundle.replaces and bundle.replaces not in known:
                message = f"{bundle.name} replaces {bundle.replaces}, which the package {package} does not have"
                yield bundle, Finding(message, subject=bundle.replaces)


@cross_bundle_rule(
    "ACROSS-REPLACES-CYCLE",
    Severity.ERROR,
    "bundles replace each other in a circle",
    hint="Let each bundle replace an earlier one.",
    bad="demo.v1.0.0 replaces demo.v1.1.0, which replaces demo.v1.0.0",
    good="demo.v1.1.0 replaces demo.v1.0.0, which replaces none",
)
def replaces_cycle(bundles: Sequence[Summary]) -> Iterator[BundleFinding]:
    """There is no newest bundle in a circle, so nothing that could be installed."""
    for _, members in _packages(bundles):
        by_name = {bundle.name: bundle for bundle in members}
        done: set[str] = set()
        for start in by_name:
            trail: dict[str, None] = {}
            name = start
            while name in by_name and name not in done and name not in trail:
                trail[name] = None
                name = by_name[name].replaces
            if name in trail and name != by_name[name].replaces:  # one that replaces itself is told by its own rule
                circle = list(trail)[list(trail).index(name) :]
                message = f"{' replaces '.join([*circle, name])}"
                yield by_name[name], Finding(message, subject=name)
            done.update(trail)


@cross_bundle_rule(
    "ACROSS-CHANNEL-HEADS",
    Severity.WARNING,
    "a channel has several newest bundles",
    hint="Let each bundle but the newest be replaced or skipped by another one of the channel.",
    bad="in the channel stable, demo.v1.1.0 and demo.v1.2.0 both replace demo.v1.0.0",
    good="in the channel stable, demo.v1.2.0 replaces demo.v1.1.0, which replaces demo.v1.0.0",
)
def channel_heads(bundles: Sequence[Summary]) -> Iterator[BundleFinding]:
    """A channel has one newest bundle, which is what people get; those beside it lead nowhere.

    Channels in which no bundle replaces or skips another are ordered by version, and not looked at.
    """
    for key, members in _grouped(bundles, lambda bundle: [(bundle.package, channel) for channel in bundle.channels]):
        updated = {name for bundle in members for name in _updated(bundle) if name != bundle.name}
        heads = [bundle for bundle in members if bundle.name not in updated]
        names = list(dict.fromkeys(bundle.name for bundle in heads))
        if updated and len(names) > 1:
            package, channel = key if isinstance(key, tuple) else ("", "")
            message = f"the channel {channel} of the package {package} has the heads {_listed(reversed(names))}"
            yield heads[-1], Finding(message, subject=channel)


@cross_bundle_rule(
    "ACROSS-DEFAULT-CHANNEL",
    Severity.WARNING,
    "the default channel of a package has no bundle",
    hint="Set the default channel of the newest bundle to a channel that has bundles, or add it to its channels.",
    bad="the newest bundle has the channels alpha,beta and the default channel stable, which no bundle is in",
    good="the newest bundle has the channels beta,stable and the default channel stable",
)
def default_channel(bundles: Sequence[Summary]) -> Iterator[BundleFinding]:
    """Who installs the package without naming a channel gets nothing."""
    for package, members in _packages(bundles):
        newest = next((bundle for bundle in reversed(members) if bundle.default_channel), None)
        channels = {channel for bundle in members for channel in bundle.channels}
        if newest and newest.default_channel not in channels:
            message = f"no bundle of the package {package} is in its default channel {newest.default_channel}"
            yield newest, Finding(message, subject=newest.default_channel)


@cross_bundle_rule(
    "ACROSS-CRD-OWNERS",
    Severity.WARNING,
    "two packages own the same CRD",
    hint="Let one package own the CRD, and the other require it.",
    bad="bundles of the packages demo and demo-community both own demos.demo.example.com",
    good="bundles of the package demo own demos.demo.example.com, those of other packages require it",
)
def crd_owners(bundles: Sequence[Summary]) -> Iterator[BundleFinding]:
    """A CRD is there once in a cluster: where one of the packages is installed, the other can't be."""
    for name, members in _grouped(bundles, lambda bundle: bundle.owned_crds):
        packages = sorted({bundle.package for bundle in members})
        if len(packages) > 1:
            message = f"the CRD {name} is owned by the packages {_listed(packages)}"
            yield members[-1], Finding(message, subject=str(name))
