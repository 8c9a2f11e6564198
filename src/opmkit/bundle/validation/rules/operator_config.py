"""Rules of the validator ``operator``: ci.yaml and release-config.yaml, the configuration of Red Hat's pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.operator_directory import CI_FILE, RELEASE_CONFIG, TEMPLATES
from opmkit.bundle.validation.operator_view import UPDATE_GRAPHS, bundle_check, operator_check
from opmkit.bundle.validation.pipeline_yaml import unreadable_for_pipelines
from opmkit.bundle.validation.rule import rule
from opmkit.documents.fields import format_path
from opmkit.documents.lenient import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeAlias

    from opmkit.bundle.validation.bundle_view import ManifestView
    from opmkit.bundle.validation.operator_view import Operator, VersionDirectory
    from opmkit.documents.fields import FieldPath

    Problems: TypeAlias = Iterator[tuple[FieldPath, str]]
    """Path and problem of each invalid value."""
    Schema: TypeAlias = Callable[[FieldPath, Any], Problems]

VALIDATOR = "operator"
_SEMVER = "olm.semver"
_TEMPLATE_TYPES = ("olm.template.basic", _SEMVER)
_SEMVER_CHANNELS = ("Candidate", "Fast", "Stable")
_FBC: FieldPath = ("fbc",)
_MAPPING: FieldPath = (*_FBC, "catalog_mapping")
_TEMPLATES: FieldPath = ("catalog_templates",)


def _is(kind: type, noun: str) -> Schema:
    def check(path: FieldPath, value: Any) -> Problems:
        if not isinstance(value, kind):
            yield path, f"is not {noun}"

    return check


def _choice(*choices: str) -> Schema:
    def check(path: FieldPath, value: Any) -> Problems:
        if value not in choices:
            yield path, f"is not one of {', '.join(choices)}"

    return check


_UNKNOWN = "is an unknown field"


def _items_of(schema: Schema, *, empty: bool = False, unique: bool = True) -> Schema:
    def check(path: FieldPath, value: Any) -> Problems:
        if not isinstance(value, list):
            yield path, "is not a list"
            return
        if not value and not empty:
            yield path, "is an empty list"
        seen: set[str] = set()
        for number, item in enumerate(value):
            yield from schema((*path, number), item)
            if unique and repr(item) in seen:
                yield (*path, number), "is listed twice"
            seen.add(repr(item))

    return check


def _members_of(schemas: Mapping[str, Schema], required: tuple[str, ...] = (), *, closed: bool = False) -> Schema:
    def check(path: FieldPath, value: Any) -> Problems:
        if not isinstance(value, dict):
            yield path, "is not a mapping"
            return
        for name in required:
            if name not in value:
                yield path, f"has no {name}"
        for name, member in value.items():
            if name in schemas:
                yield from schemas[name]((*path, name), member)
            elif closed:
                yield (*path, name), _UNKNOWN

    return check


_text = _is(str, "a string")
_flag = _is(bool, "true or false")
_CI_SCHEMA = _members_of(
    {
        "updateGraph": _choice(*UPDATE_GRAPHS),
        "reviewers": _items_of(_text, unique=False),
        "merge": _flag,
        "cert_project_id": _text,
        "fbc": _members_of(
            {
                "enabled": _flag,
                "version_promotion_strategy": _choice("review-needed", "always", "never"),
                "catalog_mapping": _items_of(
                    _members_of(
                        {
                            "template_name": _text,
                            "catalog_names": _items_of(_text),
                            "type": _choice(*_TEMPLATE_TYPES),
                        },
                        ("template_name", "type", "catalog_names"),
                    ),
                    empty=True,
                    unique=False,
                ),
            },
            closed=True,
        ),
    }
)
_RELEASE_SCHEMA = _members_of(
    {
        "merge": _flag,
        "catalog_templates": _items_of(
            _members_of(
                {
                    "template_name": _text,
                    "channels": _items_of(_text),
                    "defaultChannel": _text,
                    "replaces": _text,
                    "skips": _items_of(_text),
                    "skipRange": _text,
                },
                ("template_name", "channels"),
            )
        ),
    },
    ("catalog_templates",),
    closed=True,
)


def _schema_findings(file: ManifestView, schema: Schema, *, optional: bool = False) -> Iterator[Finding]:
    if file.content.error is not None:
        error = file.content.error
        yield Finding(error.problem, file.path, line=error.line, column=error.column)
    elif unreadable := unreadable_for_pipelines(file.content.raw):
        problem, line = unreadable
        yield Finding(f"{file.name} has {problem}", file.path, line=line, subject=file.name)
    elif file.content.value is None and not optional:
        yield Finding(f"{file.name} is empty", file.path, subject=file.name)
    elif file.content.value or not optional:
        for path, problem in schema((), file.content.value):
            name = format_path(path) or file.name
            # The schema is a copy: that of the pipelines may have more fields by now.
            severity = Severity.WARNING if problem is _UNKNOWN else Severity.ERROR
            yield Finding(f"{name} {problem}", file.path, path, subject=name, severity=severity)


@rule(
    "OPERATOR-CI",
    VALIDATOR,
    Severity.ERROR,
    "invalid value in ci.yaml",
    hint="Correct the value; the fields are described in the documentation of the operator pipelines.",
    bad="updateGraph: semver",
    good="updateGraph: semver-mode",
    compat=OPMKIT_ONLY,
    variable_severity=True,
)
@operator_check
def ci(operator: Operator) -> Iterator[Finding]:
    """The pipelines of community and certified operators reject changes to an operator with an invalid file.

    They fail for an empty file, and accept an operator without the file.
    """
    if operator.ci is not None:
        yield from _schema_findings(operator.ci, _CI_SCHEMA)


@rule(
    "OPERATOR-CI-UPDATE-GRAPH",
    VALIDATOR,
    Severity.WARNING,
    "ci.yaml has no updateGraph",
    hint="Set updateGraph to replaces-mode, which is the default, or to semver-mode.",
    bad="reviewers: [me]",
    good="reviewers: [me]\nupdateGraph: replaces-mode",
    compat=OPMKIT_ONLY,
)
@operator_check
def ci_update_graph(operator: Operator) -> Iterator[Finding]:
    """The pipelines use replaces-mode, in which bundles without replaces begin a new graph."""
    if not operator.uses_catalogs and not operator.config.get("updateGraph"):
        file = operator.ci.path if operator.ci else ""
        yield Finding("updateGraph is not set in ci.yaml", file, ("updateGraph",), subject=CI_FILE)


@rule(
    "OPERATOR-CI-CATALOG",
    VALIDATOR,
    Severity.ERROR,
    "several templates for a catalog",
    hint="List each catalog in the catalog_names of one template.",
    bad="catalog_mapping:\n- {template_name: a.yaml, type: olm.semver, catalog_names: [v4.17]}\n"
    "- {template_name: b.yaml, type: olm.semver, catalog_names: [v4.17]}",
    good="catalog_mapping:\n- {template_name: a.yaml, type: olm.semver, catalog_names: [v4.17]}\n"
    "- {template_name: b.yaml, type: olm.semver, catalog_names: [v4.18]}",
    compat=OPMKIT_ONLY,
)
@operator_check
def ci_catalog(operator: Operator) -> Iterator[Finding]:
    """A catalog is rendered from one template, which ci.yaml names once."""
    used: dict[str, str] = {}
    for number, entry in enumerate(map(mapping, items(operator.fbc.get("catalog_mapping")))):
        name = text(entry.get("template_name"))
        for index, catalog in enumerate(items(entry.get("catalog_names"))):
            if operator.ci is None or not isinstance(catalog, str):
                continue
            if catalog not in used:
                used[catalog] = name
            else:
                several = f"templates {used[catalog]} and {name}" if used[catalog] != name else f"template {name} twice"
                message = f"catalog {catalog} has the {several}"
                path = (*_MAPPING, number, "catalog_names", index)
                yield Finding(message, operator.ci.path, path, subject=catalog)


@rule(
    "OPERATOR-CI-TEMPLATE",
    VALIDATOR,
    Severity.ERROR,
    "a catalog template does not exist",
    hint=f"Write the name of a file in the directory {TEMPLATES}.",
    bad=f"template_name: {TEMPLATES}/a.yaml",
    good="template_name: a.yaml",
    compat=OPMKIT_ONLY,
)
@operator_check
def ci_template(operator: Operator) -> Iterator[Finding]:
    """The catalogs cannot be rendered."""
    for number, entry in enumerate(map(mapping, items(operator.fbc.get("catalog_mapping")))):
        name = text(entry.get("template_name"))
        if operator.ci and name and name not in operator.templates:
            message = f"template {name} does not exist in {TEMPLATES}"
            yield Finding(message, operator.ci.path, (*_MAPPING, number, "template_name"), subject=name)


@rule(
    "OPERATOR-FBC",
    VALIDATOR,
    Severity.WARNING,
    "the operator does not use file-based catalogs",
    hint="Set fbc.enabled in ci.yaml, and add catalog templates.",
    bad="fbc: {enabled: false}",
    good="fbc: {enabled: true}",
    compat=OPMKIT_ONLY,
)
@operator_check
def fbc(operator: Operator) -> Iterator[Finding]:
    """The pipelines recommend file-based catalogs, which allow changes of the update graph without new bundles."""
    if not operator.uses_catalogs:
        yield Finding(
            "fbc.enabled is not true in ci.yaml", operator.ci.path if operator.ci else "", _FBC, subject="fbc"
        )


@rule(
    "OPERATOR-RELEASE-CONFIG",
    VALIDATOR,
    Severity.ERROR,
    "invalid value in release-config.yaml",
    hint="Correct the value; catalog_templates is a list with template_name and channels.",
    bad="catalog_templates: [{template_name: a.yaml}]",
    good="catalog_templates: [{template_name: a.yaml, channels: [Stable]}]",
    compat=OPMKIT_ONLY,
    variable_severity=True,
)
@bundle_check
def release_config(_operator: Operator, version: VersionDirectory) -> Iterator[Finding]:
    """The bundle is not added to the catalogs."""
    if version.release_config is not None:
        yield from _schema_findings(version.release_config, _RELEASE_SCHEMA, optional=True)


@rule(
    "OPERATOR-RELEASE-TEMPLATE",
    VALIDATOR,
    Severity.ERROR,
    "release-config.yaml does not fit ci.yaml",
    hint="Enable fbc in ci.yaml, use its templates, and in semver templates the channels Candidate, Fast and Stable.",
    bad="catalog_templates: [{template_name: other.yaml, channels: [stable]}]",
    good="catalog_templates: [{template_name: semver.yaml, channels: [Stable]}]",
    compat=OPMKIT_ONLY,
)
@bundle_check
def release_template(operator: Operator, version: VersionDirectory) -> Iterator[Finding]:
    """The bundle cannot be added to the catalogs that its release configuration names."""
    file = version.release_config
    if file is None or file.content.error is not None or not file.content.value:
        return
    if not operator.uses_catalogs:
        yield Finding(f"{RELEASE_CONFIG} is not used, because fbc is not enabled in ci.yaml", file.path)
        return
    for number, entry in enumerate(map(mapping, items(file.object.get("catalog_templates")))):
        yield from _template_findings(operator, file, (*_TEMPLATES, number), entry)


def _template_findings(
    operator: Operator, file: ManifestView, path: FieldPath, entry: Mapping[str, Any]
) -> Iterator[Finding]:
    name = entry.get("template_name")
    known = operator.templates_by_name
    if name is None or isinstance(name, dict | list):  # reported by another rule
        return
    if name not in known:
        message = f"template {name} is not in the catalog_mapping of ci.yaml"
        yield Finding(message, file.path, (*path, "template_name"), subject=name)
    elif known[name].get("type") == _SEMVER:
        for index, channel in enumerate(items(entry.get("channels"))):
            if channel not in _SEMVER_CHANNELS:
                message = f"channel {channel!r} is not possible in the semver template {name}"
                yield Finding(message, file.path, (*path, "channels", index), subject=name)
    default = text(entry.get("defaultChannel"))
    if default and default not in items(entry.get("channels")):
        message = f"defaultChannel {default!r} is not one of the channels"
        yield Finding(message, file.path, (*path, "defaultChannel"), subject=name)
