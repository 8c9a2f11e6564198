"""Rules of the validator ``operator``: the update graph of an operator's bundles.

They do not apply to operators that are released by file-based catalogs, whose graph is in the catalogs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.openshift import VERSIONS, OpenShiftRange, OpenShiftVersion
from opmkit.bundle.validation.operator_view import operator_check
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.versions import VersionRange as SkipRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.bundle.validation.operator_view import Operator, VersionDirectory
    from opmkit.documents.fields import FieldPath

VALIDATOR = "operator"
_REPLACES: FieldPath = ("spec", "replaces")
_SHOWN = 5
_ALL_VERSIONS = OpenShiftRange(OpenShiftVersion(0, 0))


def _finding(version: VersionDirectory, message: str, path: FieldPath, subject: str = "") -> Finding:
    return Finding(message, version.csv.path if version.csv else "", path, subject=subject or version.name)


def _updates(members: Sequence[VersionDirectory]) -> Mapping[str, list[VersionDirectory]]:
    """Return the bundles of a channel that replace or skip each bundle, by its name."""
    known = {version.name for version in members}
    updates: dict[str, list[VersionDirectory]] = {name: [] for name in known}
    for version in members:
        skipped = _skipped(version, members)
        for name in sorted((known & set(version.replaced_names)) | skipped):
            if name != version.name:  # other rules report those
                updates[name].append(version)
    return updates


def _skipped(version: VersionDirectory, members: Sequence[VersionDirectory]) -> set[str]:
    """Return the names of the bundles in the skipRange of a bundle."""
    try:
        skip_range = SkipRange.parse(version.skip_range) if version.skip_range else None
    except ValueError:  # reported by another rule
        return set()
    return {other.name for other in members if other.version in skip_range} if skip_range else set()


@rule(
    "OPERATOR-REPLACES-MISSING",
    VALIDATOR,
    Severity.ERROR,
    "a replaced bundle is not in the repository",
    hint="Correct spec.replaces, or add the bundle that it names.",
    bad="operators/demo/1.1.0 replaces demo.v1.0.9, and there is no operators/demo/1.0.9",
    good="operators/demo/1.1.0 replaces demo.v1.0.0, and there is operators/demo/1.0.0",
    compat=OPMKIT_ONLY,
)
@operator_check
def replaces_missing(operator: Operator) -> Iterator[Finding]:
    """The pipelines cannot add the bundle to a catalog without the one that it replaces."""
    names = {version.name for version in operator.versions}
    for version in () if operator.uses_catalogs else operator.versions:
        if version.replaces and version.replaces not in names:
            message = f"{version.name} replaces {version.replaces}, which does not exist in this directory"
            yield _finding(version, message, _REPLACES, version.replaces)


@rule(
    "OPERATOR-REPLACES-OPENSHIFT",
    VALIDATOR,
    Severity.WARNING,
    "a replaced bundle is released for fewer OpenShift versions",
    hint=f"Give both bundles the same {VERSIONS}, or replace another bundle.",
    bad=f"demo.v1.1.0 with {VERSIONS}: v4.12 replaces demo.v1.0.0 with v4.14",
    good=f"demo.v1.1.0 with {VERSIONS}: v4.14 replaces demo.v1.0.0 with v4.14",
    compat=OPMKIT_ONLY,
)
@operator_check
def replaces_openshift(operator: Operator) -> Iterator[Finding]:
    """The pipelines reject the bundle if a catalog that they maintain would contain it, but not the replaced one."""
    by_name = {version.name: version for version in operator.versions}
    for version in () if operator.uses_catalogs else operator.versions:
        replaced = by_name.get(version.replaces)
        if replaced is None or replaced is version:
            continue
        wanted, available = version.openshift or _ALL_VERSIONS, replaced.openshift or _ALL_VERSIONS
        ends_later = available.last is not None and (wanted.last is None or wanted.last > available.last)
        if wanted.first < available.first or ends_later:
            ranges = f"{_describe(wanted)}, but {replaced.name} only for {_describe(available)}"
            yield _finding(version, f"{version.name} is released for OpenShift {ranges}", _REPLACES, replaced.name)


def _describe(versions: OpenShiftRange) -> str:
    return "all versions" if versions == _ALL_VERSIONS else str(versions)


@rule(
    "OPERATOR-GRAPH-LOOP",
    VALIDATOR,
    Severity.ERROR,
    "loop in the update graph",
    hint="Remove an edge, so that each update leads to a later bundle.",
    bad="demo.v1.0.0 replaces demo.v1.1.0, which has the skipRange <1.1.0",
    good="demo.v1.1.0 replaces demo.v1.0.0",
    compat=OPMKIT_ONLY,
)
@operator_check
def graph_loop(operator: Operator) -> Iterator[Finding]:
    """Clusters in a loop never reach the last version."""
    if operator.uses_catalogs or operator.is_ordered_by_version:
        return
    reported: set[tuple[str, ...]] = set()
    for channel, members in operator.channels.items():
        loop = _find_loop(_updates(members))
        names = tuple(version.name for version in loop)
        if loop and tuple(sorted(names)) not in reported:
            reported.add(tuple(sorted(names)))
            message = f"loop in channel {channel}: {' -> '.join([*names, names[0]])}"
            yield _finding(loop[0], message, _REPLACES, channel)


def _find_loop(updates: Mapping[str, list[VersionDirectory]]) -> list[VersionDirectory]:
    """Return the bundles of a loop in the order of updates, [] if there is none."""
    done: set[str] = set()
    for start in sorted(updates):
        trail: list[VersionDirectory] = []
        position: dict[str, int] = {}
        pending = [iter(updates[start])]
        while pending and start not in done:
            following = next(pending[-1], None)
            if following is None:
                pending.pop()
                if trail:
                    left = trail.pop()
                    del position[left.name]
                    done.add(left.name)
            elif following.name in position:
                return trail[position[following.name] :]
            elif following.name not in done:
                position[following.name] = len(trail)
                trail.append(following)
                pending.append(iter(updates[following.name]))
        done.add(start)
    return []


@rule(
    "OPERATOR-GRAPH-DANGLING",
    VALIDATOR,
    Severity.ERROR,
    "a bundle of a channel is not updated by any other",
    hint="Replace or skip it by a later bundle of the channel, or remove it from the channel.",
    bad="in the channel stable, demo.v1.1.0 and demo.v1.2.0 both replace demo.v1.0.0",
    good="in the channel stable, demo.v1.2.0 replaces demo.v1.0.0 and skips demo.v1.1.0",
    compat=OPMKIT_ONLY,
)
@operator_check
def graph_dangling(operator: Operator) -> Iterator[Finding]:
    """Clusters on this version get no update, although the channel has a later one."""
    if operator.uses_catalogs or operator.is_ordered_by_version:
        return
    for channel, members in operator.channels.items():
        updates = _updates(members)
        dangling = [version for version in members[:-1] if version.name and not updates[version.name]]
        if dangling:
            names = ", ".join(version.name for version in dangling[:_SHOWN])
            more = f" and {len(dangling) - _SHOWN} more" if len(dangling) > _SHOWN else ""
            message = f"no bundle of channel {channel} replaces or skips {names}{more}"
            yield _finding(dangling[-1], message, ("metadata", "name"), channel)


@rule(
    "OPERATOR-GRAPH-PRUNED",
    VALIDATOR,
    Severity.WARNING,
    "a bundle with a skipRange does not replace a bundle of its channel",
    hint="Set spec.replaces to the previous bundle, or ignore this warning if older bundles are to be dropped.",
    bad="annotations: {olm.skipRange: '>=1.0.0 <1.2.0'}  # without spec.replaces",
    good="annotations: {olm.skipRange: '>=1.0.0 <1.2.0'}  # with spec.replaces: demo.v1.1.0",
    compat=OPMKIT_ONLY,
)
@operator_check
def graph_pruned(operator: Operator) -> Iterator[Finding]:
    """In replaces-mode, adding such a bundle removes the older ones from the channel."""
    if operator.uses_catalogs or operator.is_ordered_by_version:
        return
    for version in operator.versions:
        pruned = [channel for channel in sorted(version.channels) if len(operator.channels[channel]) > 1]
        if version.skip_range and not version.replaces and pruned:
            message = f"{version.name} has a skipRange but no replaces, which removes older bundles from {pruned[0]}"
            yield _finding(version, message, ("metadata", "annotations", "olm.skipRange"))
