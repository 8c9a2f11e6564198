"""Rules of the validator ``community``: bundles that use removed APIs must not be offered to OpenShift 4.9.

They apply only to bundles that use APIs which Kubernetes 1.22, and therefore OpenShift 4.9, removed. Deprecated in
favor of an external validator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import orjson

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.csv_view import Csv
from opmkit.bundle.validation.openshift import MAX_VERSION, VERSIONS
from opmkit.bundle.validation.optional_validators import read_option_file
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.rules.deprecated_apis import describe_removed, has_removed_in_1_22
from opmkit.bundle.versions import tolerant_version
from opmkit.documents import fields
from opmkit.documents.errors import FieldTypeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.documents.fields import FieldPath

VALIDATOR = "community"
LABEL, PROPERTY = VERSIONS, MAX_VERSION
_PROPERTIES: FieldPath = ("metadata", "annotations", "olm.properties")
_FIRST_WITHOUT = "4.9"

_MISSING, _JSON, _PARSE = "COMM-MAXOCP-MISSING", "COMM-PROPERTIES-JSON", "COMM-MAXOCP-PARSE"
_PATCH, _TOO_NEW = "COMM-MAXOCP-PATCH", "COMM-MAXOCP-TOO-NEW"
_NO_PATH, _FILE, _SYNTAX = "COMM-INDEX-PATH", "COMM-INDEX-FILE", "COMM-LABEL-SYNTAX"
_LABEL_PARSE, _EMPTY, _RANGE = "COMM-LABEL-PARSE", "COMM-LABEL-EMPTY", "COMM-LABEL-RANGE"


def _findings_of(bundle: BundleView, rule_id: str) -> Iterator[Finding]:
    """Return the findings of one rule; the bundle is checked once for all rules.

    Without index-path, the Go validators repeat every error as a warning and drop COMM-MAXOCP-PATCH.
    """
    if _findings_of not in bundle.memo:
        bundle.memo[_findings_of] = tuple(_findings(bundle))
    findings = cast("tuple[tuple[str, Finding], ...]", bundle.memo[_findings_of])
    is_fixed = bundle.compat is Compat.OPMKIT or bundle.options.index_path
    if not is_fixed and rule_id == _PATCH:
        return
    for finding_rule, finding in findings:
        if finding_rule == rule_id:
            yield finding
            if not is_fixed and rule_id != _NO_PATH:
                yield replace(finding, severity=Severity.WARNING)


def _findings(bundle: BundleView) -> Iterator[tuple[str, Finding]]:
    csv = Csv.from_bundle(bundle)
    if csv is not None and bundle.csv is not None and has_removed_in_1_22(bundle):
        problem = _property_problem(csv)
        if problem is not None:
            rule_id, message = problem
            yield rule_id, Finding(message, bundle.csv.path, _PROPERTIES)
        yield from _label_findings(bundle)


def _property_problem(csv: Csv) -> tuple[str, str] | None:
    """Return the rule that the property olm.maxOpenShiftVersion violates, and the message; None if it is valid."""
    annotation = csv.annotations.get("olm.properties", "")
    if not annotation:
        return _MISSING, f"annotation olm.properties with {PROPERTY} not found"
    try:
        values = _property_values(annotation)
    except (InvalidBundle, FieldTypeError, orjson.JSONDecodeError) as error:
        return _JSON, f"invalid annotation olm.properties: {error}"
    if not values:
        return _MISSING, f"annotation olm.properties has no {PROPERTY}"
    try:
        version = tolerant_version(values[0])
    except ValueError as error:
        return _PARSE, f"invalid version in {PROPERTY}: {error}"
    if version.compare(version.replace(patch=0, prerelease=None, build=None)) != 0:
        return _PATCH, f"{PROPERTY} is {values[0]!r}; only major and minor are used"
    if version >= tolerant_version(_FIRST_WITHOUT):
        return _TOO_NEW, f"{PROPERTY} is {values[0]!r}, but OpenShift {_FIRST_WITHOUT} lacks APIs of the bundle"
    return None


def _property_values(annotation: str) -> list[str]:
    values = []
    for entry in fields.items(orjson.loads(annotation), "it"):
        members = fields.mapping(entry, "an entry")
        kind = fields.text(fields.member(members, "type"), "a type")
        value = fields.text(fields.member(members, "value"), "a value")
        values += [value] if kind == PROPERTY else []
    return values


def _label_findings(bundle: BundleView) -> Iterator[tuple[str, Finding]]:
    """Check the first line of the Dockerfile that contains the label."""
    path = bundle.options.index_path
    if not path:
        lacking = f"OpenShift {_FIRST_WITHOUT} lacks APIs of the bundle: {describe_removed(bundle, '1.22')}"
        yield _NO_PATH, Finding(f"cannot check {LABEL} without index-path; {lacking}")
        return
    try:
        lines = read_option_file(bundle.options, path).decode(errors="replace").split("\n")
    except OSError as error:
        yield _FILE, Finding(f"cannot read {path}: {error.strerror or error}", path)
        return
    for number, line in enumerate(lines, 1):
        if LABEL in line:
            problem = _label_problem(line)
            if problem is not None:
                rule_id, message = problem
                yield rule_id, Finding(message, path, line=number)
            return
    yield _RANGE, Finding(f"{path} has no label {LABEL}, so the bundle is offered to every OpenShift version", path)


def _label_problem(line: str) -> tuple[str, str] | None:
    """Return the rule that the label violates, and the message; None if it is valid.

    The label is a range (``v4.5-v4.8``), one version (``=v4.8``), or a minimum version (``v4.5``).
    """
    _, equals, rest = line.partition("=")
    if not equals:
        return _SYNTAX, f"label {LABEL} is set without ="
    first, *others = rest.split("=")
    is_single = bool(others and others[0])
    value = _cleaned(others[0] if is_single else first)
    if not is_single and len(value.encode()) <= 1:
        return _EMPTY, f"label {LABEL} is empty"
    if not is_single and "-" not in value:
        return _RANGE, f"label {LABEL} is {value!r}, which does not end before {_FIRST_WITHOUT}"
    last = value if is_single else value.split("-")[1]
    try:
        version = tolerant_version(last)
    except ValueError as error:
        return _LABEL_PARSE, f"invalid version in label {LABEL}: {error}"
    if version >= tolerant_version(_FIRST_WITHOUT):
        return (
            _RANGE,
            f"label {LABEL} is {value!r}, but OpenShift {_FIRST_WITHOUT} lacks APIs of the bundle",
        )
    return None


def _cleaned(text: str) -> str:
    return text.replace("'", "").replace('"', "").replace("v", "")


@rule(
    _MISSING,
    VALIDATOR,
    Severity.ERROR,
    "missing maximum OpenShift version",
    hint=f"Migrate to current APIs, or set the property {PROPERTY} to 4.8.",
    bad="annotations: {}",
    good="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]'}""",
    variable_severity=True,
)
def max_version_missing(bundle: BundleView) -> Iterator[Finding]:
    """The property prevents cluster upgrades to a version on which the operator does not work."""
    return _findings_of(bundle, _MISSING)


@rule(
    _JSON,
    VALIDATOR,
    Severity.ERROR,
    "invalid annotation olm.properties",
    hint='Write JSON such as [{"type": "olm.maxOpenShiftVersion", "value": "4.8"}].',
    bad="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": 4.8}]'}""",
    good="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]'}""",
    variable_severity=True,
)
def properties_json(bundle: BundleView) -> Iterator[Finding]:
    """The annotation is a JSON list of types and values. Versions must be strings: the number 4.10 equals 4.1."""
    return _findings_of(bundle, _JSON)


@rule(
    _PARSE,
    VALIDATOR,
    Severity.ERROR,
    "invalid maximum OpenShift version",
    hint="Write major and minor, such as 4.8.",
    bad="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "latest"}]'}""",
    good="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]'}""",
    variable_severity=True,
)
def max_version_parse(bundle: BundleView) -> Iterator[Finding]:
    """The version is compared with that of the cluster."""
    return _findings_of(bundle, _PARSE)


@rule(
    _PATCH,
    VALIDATOR,
    Severity.WARNING,
    "the maximum OpenShift version has a patch version",
    hint="Write only major and minor, such as 4.8.",
    bad="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8.3"}]'}""",
    good="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]'}""",
)
def max_version_patch(bundle: BundleView) -> Iterator[Finding]:
    """Patch versions of OpenShift do not remove APIs, so the patch version is ignored."""
    return _findings_of(bundle, _PATCH)


@rule(
    _TOO_NEW,
    VALIDATOR,
    Severity.ERROR,
    "the maximum OpenShift version does not have APIs that the bundle uses",
    hint="Migrate to current APIs, or write 4.8.",
    bad="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.9"}]'}""",
    good="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]'}""",
    variable_severity=True,
)
def max_version_too_new(bundle: BundleView) -> Iterator[Finding]:
    """OpenShift 4.9 contains Kubernetes 1.22, which removed these APIs."""
    return _findings_of(bundle, _TOO_NEW)


@rule(
    _NO_PATH,
    VALIDATOR,
    Severity.WARNING,
    "the label with the OpenShift versions is not checked",
    hint="Set the optional value index-path to the bundle's Dockerfile.",
    bad="name=community",
    good="name=community, with index-path=bundle.Dockerfile",
)
def index_path(bundle: BundleView) -> Iterator[Finding]:
    """The Dockerfile of the bundle sets the label com.redhat.openshift.versions."""
    return _findings_of(bundle, _NO_PATH)


@rule(
    _FILE,
    VALIDATOR,
    Severity.ERROR,
    "cannot read the Dockerfile",
    hint="Set the optional value index-path to the bundle's Dockerfile.",
    bad="index-path=.",
    good="index-path=bundle.Dockerfile",
    variable_severity=True,
)
def index_file(bundle: BundleView) -> Iterator[Finding]:
    """The option index-path must name an existing file."""
    return _findings_of(bundle, _FILE)


@rule(
    _SYNTAX,
    VALIDATOR,
    Severity.ERROR,
    f"label {LABEL} is set without =",
    hint=f'Write LABEL {LABEL}="v4.5-v4.8".',
    bad=f"LABEL {LABEL} v4.5-v4.8",
    good=f'LABEL {LABEL}="v4.5-v4.8"',
    variable_severity=True,
)
def label_syntax(bundle: BundleView) -> Iterator[Finding]:
    """The instruction must be LABEL key=value."""
    return _findings_of(bundle, _SYNTAX)


@rule(
    _LABEL_PARSE,
    VALIDATOR,
    Severity.ERROR,
    f"invalid version in label {LABEL}",
    hint=f'Write LABEL {LABEL}="v4.5-v4.8".',
    bad=f'LABEL {LABEL}="v4.5-latest"',
    good=f'LABEL {LABEL}="v4.5-v4.8"',
    variable_severity=True,
)
def label_parse(bundle: BundleView) -> Iterator[Finding]:
    """OpenShift versions have the form v4.8."""
    return _findings_of(bundle, _LABEL_PARSE)


@rule(
    _EMPTY,
    VALIDATOR,
    Severity.ERROR,
    f"label {LABEL} is empty",
    hint=f'Write LABEL {LABEL}="v4.5-v4.8".',
    bad=f'LABEL {LABEL}=""',
    good=f'LABEL {LABEL}="v4.5-v4.8"',
    variable_severity=True,
)
def label_empty(bundle: BundleView) -> Iterator[Finding]:
    """The label determines to which OpenShift versions the bundle is offered."""
    return _findings_of(bundle, _EMPTY)


@rule(
    _RANGE,
    VALIDATOR,
    Severity.ERROR,
    "the bundle is offered to OpenShift versions that do not have APIs it uses",
    hint=f'Migrate to current APIs, or write LABEL {LABEL}="v4.5-v4.8".',
    bad=f'LABEL {LABEL}="v4.5"',
    good=f'LABEL {LABEL}="v4.5-v4.8"',
    variable_severity=True,
)
def label_range(bundle: BundleView) -> Iterator[Finding]:
    """A single version means that one and all later ones; without the label, the bundle is offered to all versions."""
    return _findings_of(bundle, _RANGE)
