"""Rules of the validator ``operator``: names of an operator's directories and bundles, and their update graph.

They compute the graph as the pipelines do: bundles are identified by the versions in their names, and skip ranges have
the grammar of npm. The rules about the graph do not apply to operators that are released by file-based catalogs, whose
graph is in the catalogs.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.npm_range import NpmRange
from opmkit.bundle.validation.openshift import VERSIONS, OpenShiftRange, OpenShiftVersion
from opmkit.bundle.validation.operator_view import bundle_check, number_in, operator_check
from opmkit.bundle.validation.rule import rule
from opmkit.documents.fields import format_path
from opmkit.documents.lenient import items, text

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
    if version.csv and "." not in version.name:
        message = f"the name {version.name!r} is not of the form PACKAGE.vVERSION"
        yield Finding(message, version.csv.path, ("metadata", "name"), subject=version.name)
    elif version.csv and version.package and version.prefix != version.package:
        message = f"the name {version.name} does not begin with the package {version.package}"
        severity = _severity(operator)
        yield Finding(message, version.csv.path, ("metadata", "name"), subject=version.name, severity=severity)


@rule(
    "OPERATOR-NAME-CHANGED",
    VALIDATOR,
    Severity.ERROR,
    "the package or the name of a bundle is not that of the operator's other bundles",
    hint="Use the package and the beginning of the name that the other bundles have.",
    bad="demo-operator.v1.2.0 next to demo.v1.0.0 and demo.v1.1.0",
    good="demo.v1.2.0 next to demo.v1.0.0 and demo.v1.1.0",
    compat=OPMKIT_ONLY,
    variable_severity=True,
)
@operator_check
def name_changed(operator: Operator) -> Iterator[Finding]:
    """The pipelines reject a bundle if all others agree on another name, and warn if the others do not agree."""
    named = [version for version in operator.versions if version.package and version.prefix]
    if len(operator.versions) > 1:
        packages = {version.directory: version.package for version in operator.versions}
        prefixes = {version.directory: version.prefix for version in operator.versions if version.prefix}
        yield from _changed_names(operator, named, "package", packages, ("annotations", labels.PACKAGE))
        yield from _changed_names(operator, named, "name", prefixes, ("metadata", "name"))


def _changed_names(
    operator: Operator,
    versions: Sequence[VersionDirectory],
    noun: str,
    by_directory: Mapping[str, str],
    path: FieldPath,
) -> Iterator[Finding]:
    """Yield an error per bundle that differs from all others, and one warning if others differ among themselves."""
    numbers = Counter(by_directory.values())
    inconsistent: VersionDirectory | None = None
    for version in versions:
        own = by_directory[version.directory]
        others = sorted(value for value, number in numbers.items() if number > (value == own))
        if len(others) != 1:
            inconsistent = version
        elif others[0] != own:
            message = f"the {noun} {own} is not that of the other bundles, {others[0]}"
            yield Finding(message, _file(version, path), path, subject=version.directory, severity=Severity.ERROR)
    if inconsistent is not None:
        listed = ", ".join(sorted(numbers)[:_SHOWN])
        message = f"the bundles do not have one {noun}: {listed}"
        file = _file(inconsistent, path)
        yield Finding(message, file, path, subject=operator.name, severity=Severity.WARNING)


def _file(version: VersionDirectory, path: FieldPath) -> str:
    """Return the file of a field of the annotations or of the ClusterServiceVersion."""
    file = version.annotations_file if path[0] == "annotations" else version.csv
    return file.path if file else ""


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
    by_name = {version.prefix: version for version in operator.versions if version.prefix}
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
_SKIPS: FieldPath = ("spec", "skips")
_SHOWN = 5
_ALL_VERSIONS = OpenShiftRange(OpenShiftVersion(0, 0))


def _finding(version: VersionDirectory, message: str, path: FieldPath, subject: str = "") -> Finding:
    return Finding(message, version.csv.path if version.csv else "", path, subject=subject or version.name)


def _updates(members: Sequence[VersionDirectory]) -> Mapping[str, list[VersionDirectory]]:
    """Return the bundles of a channel that replace or skip each bundle, by the version in its name."""
    updates: dict[str, list[VersionDirectory]] = {version.number: [] for version in members}
    for version in members:
        replaced = set(map(number_in, version.replaced_names)) & updates.keys()
        for number in sorted(replaced | _skipped(version, members)):
            updates[number].append(version)
    return updates


def _skipped(version: VersionDirectory, members: Sequence[VersionDirectory]) -> set[str]:
    """Return the versions of the bundles in the skipRange of a bundle."""
    skip_range = _skip_range(version)
    if skip_range is None:
        return set()
    return {other.number for other in members if other.version and other.version in skip_range}


def _skip_range(version: VersionDirectory) -> NpmRange | None:
    """Return the skipRange of a bundle, None if it is absent or invalid."""
    try:
        return NpmRange.parse(version.skip_range) if version.skip_range else None
    except ValueError:  # ignored by the pipelines, and reported by another rule
        return None


@rule(
    "OPERATOR-GRAPH-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "a value from which the update graph cannot be computed",
    hint="Name bundles PACKAGE.vVERSION in metadata.name, spec.replaces and the list spec.skips.",
    bad="spec: {replaces: demo-1-0-0}",
    good="spec: {replaces: demo.v1.0.0}",
    compat=OPMKIT_ONLY,
)
@operator_check
def graph_invalid(operator: Operator) -> Iterator[Finding]:
    """The pipelines find bundles by the version after the first dot; skip ranges require a semantic version."""
    if operator.uses_catalogs or operator.is_ordered_by_version:
        return
    for version in operator.versions:
        if version.channels:
            yield from _invalid_edges(version)
    yield from _unordered(operator)


def _invalid_edges(version: VersionDirectory) -> Iterator[Finding]:
    """Yield a finding for each value of replaces and skips that names no bundle."""
    skips = version.spec.get("skips", [])
    if not isinstance(skips, list):
        yield _finding(version, f"spec.skips of {version.name} is not a list", _SKIPS)
    named = [(_REPLACES, version.spec.get("replaces")), *((_SKIPS, name) for name in items(skips))]
    for path, name in named:
        if isinstance(name, str) and "." not in name:
            message = f"{format_path(path)} has {name!r}, which is not of the form PACKAGE.vVERSION"
            yield _finding(version, message, path, name)


def _unordered(operator: Operator) -> Iterator[Finding]:
    """Yield a finding for each bundle without a version that is in a channel with a skipRange."""
    found: dict[str, VersionDirectory] = {}
    for members in operator.channels.values():
        if any(map(_skip_range, members)):
            found |= {version.directory: version for version in members if version.name and version.version is None}
    for version in found.values():
        message = f"{version.number!r} in the name {version.name} is not a semantic version"
        yield _finding(version, message, ("metadata", "name"))


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
    """The pipelines cannot add the bundle to a catalog without the one that it replaces, and find it by its version."""
    numbers = {version.number for version in operator.versions}
    for version in () if operator.uses_catalogs else operator.versions:
        if version.replaces and _replaced_number(version) not in numbers:
            message = f"{version.name} replaces {version.replaces}, which does not exist in this directory"
            yield _finding(version, message, _REPLACES, version.replaces)


def _replaced_number(version: VersionDirectory) -> str:
    """Return the version in ``spec.replaces``, which may follow a name with dots."""
    replaces = version.replaces
    return replaces.partition(".v" if ".v" in replaces else ".")[2]


@rule(
    "OPERATOR-REPLACES-SELF",
    VALIDATOR,
    Severity.ERROR,
    "a bundle replaces its own version",
    hint="Set spec.replaces to the previous bundle.",
    bad="demo.v1.1.0 replaces demo.v1.1.0",
    good="demo.v1.1.0 replaces demo.v1.0.0",
    compat=OPMKIT_ONLY,
)
@operator_check
def replaces_self(operator: Operator) -> Iterator[Finding]:
    """The pipelines compare the versions in the names, not the names."""
    for version in () if operator.uses_catalogs else operator.versions:
        if version.number and _replaced_number(version) == version.number:
            yield _finding(version, f"{version.name} replaces its own version", _REPLACES, version.replaces)


@rule(
    "OPERATOR-REPLACES-OPENSHIFT",
    VALIDATOR,
    Severity.WARNING,
    "a replaced bundle is released for fewer OpenShift versions",
    hint=f"Give both bundles the same {VERSIONS}, or replace another bundle and list this one in spec.skips.",
    bad=f"demo.v1.1.0 with {VERSIONS}: v4.12 replaces demo.v1.0.0 with v4.14",
    good=f"demo.v1.1.0 with {VERSIONS}: v4.14 replaces demo.v1.0.0 with v4.14",
    compat=OPMKIT_ONLY,
)
@operator_check
def replaces_openshift(operator: Operator) -> Iterator[Finding]:
    """The pipelines reject the bundle if a catalog that they maintain would contain it, but not the replaced one."""
    for version, replaced in _replacements(operator):
        wanted, available = version.openshift or _ALL_VERSIONS, replaced.openshift or _ALL_VERSIONS
        ends_later = available.last is not None and (wanted.last is None or wanted.last > available.last)
        if wanted.first < available.first or ends_later:
            ranges = f"{_describe(wanted)}, but {replaced.name} only for {_describe(available)}"
            yield _finding(version, f"{version.name} is released for OpenShift {ranges}", _REPLACES, replaced.name)


@rule(
    "OPERATOR-OPENSHIFT-NARROWED",
    VALIDATOR,
    Severity.WARNING,
    "a bundle ends at an earlier OpenShift version than the one that it replaces",
    hint=f"Extend {VERSIONS} of the newer bundle, or limit that of the replaced one as well.",
    bad=f"demo.v1.1.0 with {VERSIONS}: v4.12-v4.14 replaces demo.v1.0.0 with v4.12",
    good=f"demo.v1.1.0 with {VERSIONS}: v4.14 replaces demo.v1.0.0 with v4.12",
    compat=OPMKIT_ONLY,
)
@operator_check
def openshift_narrowed(operator: Operator) -> Iterator[Finding]:
    """In catalogs of later OpenShift versions the replaced bundle stays the newest: clusters there get no update.

    That a bundle begins at a later OpenShift version is usual: support for old versions ends.
    """
    for version, replaced in _replacements(operator):
        wanted, available = version.openshift or _ALL_VERSIONS, replaced.openshift or _ALL_VERSIONS
        if wanted.last is not None and (available.last is None or wanted.last < available.last):
            ranges = f"{_describe(wanted)}, but {replaced.name} for {_describe(available)}"
            yield _finding(version, f"{version.name} is released for OpenShift {ranges}", _REPLACES, replaced.name)


def _replacements(operator: Operator) -> Iterator[tuple[VersionDirectory, VersionDirectory]]:
    """Yield each version that replaces another one of the directory, with that; none if there are catalogs."""
    by_number = {version.number: version for version in operator.versions}
    for version in () if operator.uses_catalogs else operator.versions:
        replaced = by_number.get(_replaced_number(version)) if version.replaces else None
        if replaced is not None and replaced is not version:
            yield version, replaced


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
    """Clusters in a loop never reach the last version. A bundle that replaces or skips itself is a loop as well."""
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
                    del position[left.number]
                    done.add(left.number)
            elif following.number in position:
                return trail[position[following.number] :]
            elif following.number not in done:
                position[following.number] = len(trail)
                trail.append(following)
                pending.append(iter(updates[following.number]))
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
        dangling = [version for version in members[:-1] if version.name and not updates[version.number]]
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
