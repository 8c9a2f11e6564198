"""Rules of the validator ``community``: bundles with APIs that OpenShift 4.9 lacks must not reach it.

They look at bundles alone that use APIs which Kubernetes 1.22, and so OpenShift 4.9, removed. Deprecated: the checks
moved to a validator of their own, which is external.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import orjson

from opmkit.bundle import fields
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.csv_view import Csv
from opmkit.bundle.validation.option_files import read_given_file
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.rules.deprecated_apis import has_removed_in_1_22, told_removed_in_1_22
from opmkit.bundle.versions import tolerant_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.validation.bundle_view import BundleView

VALIDATOR = "community"
LABEL = "com.redhat.openshift.versions"
PROPERTY = "olm.maxOpenShiftVersion"
_PROPERTIES: FieldPath = ("metadata", "annotations", "olm.properties")
_FIRST_WITHOUT = "4.9"

_MISSING, _JSON, _PARSE = "COMM-MAXOCP-MISSING", "COMM-PROPERTIES-JSON", "COMM-MAXOCP-PARSE"
_PATCH, _TOO_NEW = "COMM-MAXOCP-PATCH", "COMM-MAXOCP-TOO-NEW"
_NO_PATH, _FILE, _SYNTAX = "COMM-INDEX-PATH", "COMM-INDEX-FILE", "COMM-LABEL-SYNTAX"
_LABEL_PARSE, _EMPTY, _RANGE = "COMM-LABEL-PARSE", "COMM-LABEL-EMPTY", "COMM-LABEL-RANGE"


def _told(bundle: BundleView, rule_id: str) -> Iterator[Finding]:
    """What a rule is to tell of a bundle, which is looked at once for all of them.

    Without index-path, the references tell every error once more as a warning, and leave out the warning of a patch.
    """
    if _told not in bundle.memo:
        bundle.memo[_told] = tuple(_findings(bundle))
    findings = cast("tuple[tuple[str, Finding], ...]", bundle.memo[_told])
    mended = bundle.compat is Compat.OPMKIT or bundle.options.index_path
    if not mended and rule_id == _PATCH:
        return
    for told, finding in findings:
        if told == rule_id:
            yield finding
            if not mended and rule_id != _NO_PATH:
                yield replace(finding, severity=Severity.WARNING)


def _findings(bundle: BundleView) -> Iterator[tuple[str, Finding]]:
    csv = Csv.from_bundle(bundle)
    if csv is not None and bundle.csv is not None and has_removed_in_1_22(bundle):
        found = _property_problem(csv)
        if found is not None:
            rule_id, problem = found
            yield rule_id, Finding(problem, bundle.csv.path, _PROPERTIES)
        yield from _label_findings(bundle)


def _property_problem(csv: Csv) -> tuple[str, str] | None:
    """The rule that the property of the newest OpenShift version breaks, and what to say."""
    annotation = csv.annotations.get("olm.properties", "")
    if not annotation:
        return _MISSING, f"the annotation olm.properties with {PROPERTY} is missing"
    try:
        values = _texts_of_property(annotation)
    except (InvalidBundle, orjson.JSONDecodeError) as error:
        return _JSON, f"the annotation olm.properties is no list of types and texts: {error}"
    if not values:
        return _MISSING, f"the annotation olm.properties has no {PROPERTY}"
    try:
        version = tolerant_version(values[0])
    except ValueError as error:
        return _PARSE, f"{PROPERTY} is no version: {error}"
    if version.compare(version.replace(patch=0, prerelease=None, build=None)) != 0:
        return _PATCH, f"{PROPERTY} is {values[0]!r}, of which major and minor alone count"
    if version >= tolerant_version(_FIRST_WITHOUT):
        return _TOO_NEW, f"{PROPERTY} is {values[0]!r}, but OpenShift {_FIRST_WITHOUT} lacks APIs that are used"
    return None


def _texts_of_property(annotation: str) -> list[str]:
    found = []
    for entry in fields.items(orjson.loads(annotation), "it"):
        members = fields.mapping(entry, "an entry")
        kind = fields.text(fields.member(members, "type"), "a type")
        value = fields.text(fields.member(members, "value"), "a value")
        found += [value] if kind == PROPERTY else []
    return found


def _label_findings(bundle: BundleView) -> Iterator[tuple[str, Finding]]:
    """Look at the first line of the Dockerfile that names the label."""
    path = bundle.options.index_path
    if not path:
        told = (
            f"without index-path, {LABEL} can't be checked, but APIs are used that OpenShift {_FIRST_WITHOUT} lacks: "
        )
        yield _NO_PATH, Finding(told + told_removed_in_1_22(bundle))
        return
    try:
        lines = read_given_file(path).decode(errors="replace").split("\n")
    except OSError as error:
        yield _FILE, Finding(f"{path} can't be read: {error.strerror or error}", path)
        return
    for number, line in enumerate(lines, 1):
        if LABEL in line:
            found = _label_problem(line)
            if found is not None:
                yield found[0], Finding(found[1], path, line=number)
            return
    yield _RANGE, Finding(f"{path} has no label {LABEL}, so that the bundle reaches every OpenShift", path)


def _label_problem(line: str) -> tuple[str, str] | None:
    """The rule that the label breaks, and what to say.

    It is a range such as ``v4.5-v4.8``; ``=v4.8``, that version alone; or ``v4.5``, that version and all later ones.
    """
    _, equals, rest = line.partition("=")
    if not equals:
        return _SYNTAX, f"the label {LABEL} is set without ="
    first, *others = rest.split("=")
    is_single = bool(others and others[0])
    value = _cleaned(others[0] if is_single else first)
    if not is_single and len(value.encode()) <= 1:
        return _EMPTY, f"the label {LABEL} is empty"
    if not is_single and "-" not in value:
        return _RANGE, f"the label {LABEL} is {value!r}, which has no end before {_FIRST_WITHOUT}"
    last = value if is_single else value.split("-")[1]
    try:
        version = tolerant_version(last)
    except ValueError as error:
        return _LABEL_PARSE, f"the label {LABEL} has no version: {error}"
    if version >= tolerant_version(_FIRST_WITHOUT):
        return _RANGE, f"the label {LABEL} is {value!r}, but OpenShift {_FIRST_WITHOUT} lacks APIs that are used"
    return None


def _cleaned(text: str) -> str:
    return text.replace("'", "").replace('"', "").replace("v", "")


@rule(
    _MISSING,
    VALIDATOR,
    Severity.ERROR,
    "a bundle with APIs that OpenShift 4.9 lacks does not say how far it goes",
    hint=f"Move to current APIs, or set the property {PROPERTY} to 4.8.",
    bad="annotations: {}",
    good="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]'}""",
    variable_severity=True,
)
def max_version_missing(bundle: BundleView) -> Iterator[Finding]:
    """The property keeps a cluster from being upgraded while the operator could not follow."""
    return _told(bundle, _MISSING)


@rule(
    _JSON,
    VALIDATOR,
    Severity.ERROR,
    "the annotation olm.properties is no list of types and texts",
    hint='Write JSON such as [{"type": "olm.maxOpenShiftVersion", "value": "4.8"}].',
    bad="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": 4.8}]'}""",
    good="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]'}""",
    variable_severity=True,
)
def properties_json(bundle: BundleView) -> Iterator[Finding]:
    """A number as the version is refused too, for 4.10 would be 4.1."""
    return _told(bundle, _JSON)


@rule(
    _PARSE,
    VALIDATOR,
    Severity.ERROR,
    "the newest OpenShift version is no version",
    hint="Write major and minor, such as 4.8.",
    bad="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "latest"}]'}""",
    good="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]'}""",
    variable_severity=True,
)
def max_version_parse(bundle: BundleView) -> Iterator[Finding]:
    """It is compared with the version of the cluster."""
    return _told(bundle, _PARSE)


@rule(
    _PATCH,
    VALIDATOR,
    Severity.WARNING,
    "the newest OpenShift version has more than major and minor",
    hint="Write major and minor alone, such as 4.8.",
    bad="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8.3"}]'}""",
    good="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]'}""",
)
def max_version_patch(bundle: BundleView) -> Iterator[Finding]:
    """Upgrades between patches of OpenShift do not remove APIs, so the patch does not count."""
    return _told(bundle, _PATCH)


@rule(
    _TOO_NEW,
    VALIDATOR,
    Severity.ERROR,
    "the newest OpenShift version lacks APIs that the bundle uses",
    hint="Move to current APIs, or write 4.8.",
    bad="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.9"}]'}""",
    good="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]'}""",
    variable_severity=True,
)
def max_version_too_new(bundle: BundleView) -> Iterator[Finding]:
    """OpenShift 4.9 is Kubernetes 1.22, which removed them."""
    return _told(bundle, _TOO_NEW)


@rule(
    _NO_PATH,
    VALIDATOR,
    Severity.WARNING,
    "the label of the OpenShift versions is not checked",
    hint="Set the optional value index-path to the bundle's Dockerfile.",
    bad="name=community",
    good="name=community, with index-path=bundle.Dockerfile",
)
def index_path(bundle: BundleView) -> Iterator[Finding]:
    """The label com.redhat.openshift.versions is in the Dockerfile that makes the bundle's image."""
    return _told(bundle, _NO_PATH)


@rule(
    _FILE,
    VALIDATOR,
    Severity.ERROR,
    "the Dockerfile can't be read",
    hint="Name the bundle's Dockerfile by index-path.",
    bad="index-path=.",
    good="index-path=bundle.Dockerfile",
    variable_severity=True,
)
def index_file(bundle: BundleView) -> Iterator[Finding]:
    """The option index-path must name a file that is there."""
    return _told(bundle, _FILE)


@rule(
    _SYNTAX,
    VALIDATOR,
    Severity.ERROR,
    f"the label {LABEL} is set without =",
    hint=f'Write LABEL {LABEL}="v4.5-v4.8".',
    bad=f"LABEL {LABEL} v4.5-v4.8",
    good=f'LABEL {LABEL}="v4.5-v4.8"',
    variable_severity=True,
)
def label_syntax(bundle: BundleView) -> Iterator[Finding]:
    """Labels are set as LABEL key=value."""
    return _told(bundle, _SYNTAX)


@rule(
    _LABEL_PARSE,
    VALIDATOR,
    Severity.ERROR,
    f"the label {LABEL} has no version",
    hint=f'Write LABEL {LABEL}="v4.5-v4.8".',
    bad=f'LABEL {LABEL}="v4.5-latest"',
    good=f'LABEL {LABEL}="v4.5-v4.8"',
    variable_severity=True,
)
def label_parse(bundle: BundleView) -> Iterator[Finding]:
    """The versions of OpenShift are of the form v4.8."""
    return _told(bundle, _LABEL_PARSE)


@rule(
    _EMPTY,
    VALIDATOR,
    Severity.ERROR,
    f"the label {LABEL} is empty",
    hint=f'Write LABEL {LABEL}="v4.5-v4.8".',
    bad=f'LABEL {LABEL}=""',
    good=f'LABEL {LABEL}="v4.5-v4.8"',
    variable_severity=True,
)
def label_empty(bundle: BundleView) -> Iterator[Finding]:
    """It says to which versions of OpenShift the bundle is offered."""
    return _told(bundle, _EMPTY)


@rule(
    _RANGE,
    VALIDATOR,
    Severity.ERROR,
    "the bundle is offered to OpenShift versions that lack APIs which it uses",
    hint=f'Move to current APIs, or write LABEL {LABEL}="v4.5-v4.8".',
    bad=f'LABEL {LABEL}="v4.5"',
    good=f'LABEL {LABEL}="v4.5-v4.8"',
    variable_severity=True,
)
def label_range(bundle: BundleView) -> Iterator[Finding]:
    """A version alone is that one and all later ones; without the label, the bundle is offered to all."""
    return _told(bundle, _RANGE)
