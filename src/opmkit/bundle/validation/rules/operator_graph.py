"""Rules of the validator ``operator``: names of an operator's directories and bundles, and their update graph.

They do not apply to operators that are released by file-based catalogs, whose graph is in the catalogs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.openshift import VERSIONS, OpenShiftRange, OpenShiftVersion
from opmkit.bundle.validation.operator_view import bundle_check, operator_check
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.versions import VersionRange as SkipRange
from opmkit.documents.lenient import text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.bundle.validation.operator_view import Operator, VersionDirectory
    from opmkit.documents.fields import FieldPath


VALIDATOR = "operator"
_MARKETPLACE = "redhat-marketplace"
_WORKFLOWS = {
    "marketplace.openshift.io/remote-workflow": "pricing",
    "marketplace.openshift.io/support-workflow": "support",
}


def _severity(operator: Operator) -> Severity:
    """Return the severity of inconsistent names: existing operators cannot change them."""
    return Severity.ERROR if len(operator.versions) == 1 else Severity.WARNING


@rule(
    "OPERATOR-CSV-FILE",
    VALIDATOR,
    Severity.ERROR,
    "the file of a ClusterServiceVersion has another name than the pipelines expect",
    hint="Rename the file to PACKAGE.clusterserviceversion.yaml.",
    bad="operators/demo/1.0.0/manifests/csv.yaml",
    good="operators/demo/1.0.0/manifests/demo.clusterserviceversion.yaml",
    compat=OPMKIT_ONLY,
)
@bundle_check
def csv_file(_operator: Operator, version: VersionDirectory) -> Iterator[Finding]:
    """The pipelines find the ClusterServiceVersion by the name of its file."""
    if version.csv is None:
        message = f"no file {version.directory}/manifests/*.clusterserviceversion.yaml with a ClusterServiceVersion"
        yield Finding(message, subject=version.directory)
    elif not version.csv.name.endswith((".clusterserviceversion.yaml", ".clusterserviceversion.yml")):
        yield Finding(f"{version.csv.name} is not named *.clusterserviceversion.yaml", version.csv.path, ("kind",))


@rule(
    "OPERATOR-VERSION-DIRECTORY",
    VALIDATOR,
    Severity.ERROR,
    "the directory of a bundle is not named after its version",
    hint="Rename the directory to the value of spec.version.",
    bad="operators/demo/v1.0.0 with spec.version 1.0.0",
    good="operators/demo/1.0.0 with spec.version 1.0.0",
    compat=OPMKIT_ONLY,
)
@bundle_check
def version_directory(_operator: Operator, version: VersionDirectory) -> Iterator[Finding]:
    """The pipelines release the bundle with the tag of its directory."""
    number = text(version.spec.get("version"))
    if version.csv and number != version.directory:
        message = f"spec.version is {number!r}, but the directory is {version.directory}"
        yield Finding(message, version.csv.path, ("spec", "version"), subject=version.directory)


@rule(
    "OPERATOR-PACKAGE",
    VALIDATOR,
    Severity.ERROR,
    "the package of a bundle is not that of its operator",
    hint="Set the package in metadata/annotations.yaml to the name of the operator's directory.",
    bad=f"operators/demo with {labels.PACKAGE}: demo-operator",
    good=f"operators/demo with {labels.PACKAGE}: demo",
    compat=OPMKIT_ONLY,
    variable_severity=True,
)
@bundle_check
def package(operator: Operator, version: VersionDirectory) -> Iterator[Finding]:
    """The pipelines expect the name of the directory. This is a warning for operators with several versions."""
    if version.package != operator.name:
        file = version.annotations_file.path if version.annotations_file else ""
        problem = f"package is {version.package!r}" if version.package else "package is missing"
        message = f"the {problem}, but the operator's directory is {operator.name}"
        severity = _severity(operator) if version.package else Severity.ERROR
        path = ("annotations", labels.PACKAGE)
        yield Finding(message, file, path, subject=version.directory, severity=severity)


@rule(
    "OPERATOR-NAME",
    VALIDATOR,
    Severity.ERROR,
    "the name of a bundle does not begin with its package",
    hint="Name the ClusterServiceVersion PACKAGE.vVERSION.",
    bad="metadata: {name: demo-operator.v1.0.0}  # in the package demo",
    good="metadata: {name: demo.v1.0.0}  # in the package demo",
    compat=OPMKIT_ONLY,
    variable_severity=True,
)
@bundle_check
def name(operator: Operator, version: VersionDirectory) -> Iterator[Finding]:
    """The pipelines expect consistent names. This is a warning for operators with several versions."""
    prefix, dot, number = version.name.partition(".")
    if version.csv and not (dot and number):
        message = f"the name {version.name!r} is not of the form PACKAGE.vVERSION"
        yield Finding(message, version.csv.path, ("metadata", "name"), subject=version.name)
    elif version.csv and version.package and prefix != version.package:
        message = f"the name {version.name} does not begin with the package {version.package}"
        severity = _severity(operator)
        yield Finding(message, version.csv.path, ("metadata", "name"), subject=version.name, severity=severity)


@rule(
    "OPERATOR-NAMES",
    VALIDATOR,
    Severity.ERROR,
    "the bundles of an operator have different names",
    hint="Begin the names of all bundles with the same package.",
    bad="demo.v1.0.0 and demo-operator.v1.1.0",
    good="demo.v1.0.0 and demo.v1.1.0",
    compat=OPMKIT_ONLY,
)
@operator_check
def names(operator: Operator) -> Iterator[Finding]:
    """The pipeline of community operators identifies an operator by the names of its bundles."""
    by_name = {version.name.partition(".")[0]: version for version in operator.versions if version.name}
    if len(by_name) > 1 and not operator.uses_catalogs:
        last = operator.versions[-1]
        listed = ", ".join(sorted(by_name)[:_SHOWN])
        file = last.csv.path if last.csv else ""
        yield Finding(f"the bundles have several names: {listed}", file, ("metadata", "name"), subject=operator.name)


@rule(
    "OPERATOR-MARKETPLACE",
    VALIDATOR,
    Severity.ERROR,
    "missing or invalid annotation of the marketplace",
    hint="Set the annotations marketplace.openshift.io/remote-workflow and support-workflow to the expected URLs.",
    bad="annotations: {}",
    good="annotations:\n  marketplace.openshift.io/remote-workflow: "
    "https://marketplace.redhat.com/en-us/operators/demo/pricing?utm_source=openshift_console",
    compat=OPMKIT_ONLY,
)
@bundle_check
def marketplace(operator: Operator, version: VersionDirectory) -> Iterator[Finding]:
    """The repository of marketplace operators requires links to the marketplace."""
    organization = operator.repository.object.get("organization") if operator.repository else None
    if organization != _MARKETPLACE or version.csv is None:
        return
    for key, page in _WORKFLOWS.items():
        url = f"https://marketplace.redhat.com/en-us/operators/{version.package}/{page}?utm_source=openshift_console"
        if version.csv_annotations.get(key) != url:
            path = ("metadata", "annotations", key)
            yield Finding(f"annotation {key} is not {url}", version.csv.path, path, subject=key)


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
