"""Rules of the validator ``format``: layout, annotations and dependencies."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.cel import compile_problem
from opmkit.bundle.validation.compat import Compat
from tests.kit.validation import findings, view

if TYPE_CHECKING:
    from opmkit.bundle.validation.bundle_view import BundleView

KEY = "operators.operatorframework.io.bundle"
ANNOTATIONS = f"""\
annotations:
  {KEY}.mediatype.v1: registry+v1
  {KEY}.manifests.v1: manifests/
  {KEY}.metadata.v1: metadata/
  {KEY}.package.v1: demo
  {KEY}.channels.v1: stable
  {KEY}.channel.default.v1: stable
"""
CSV = "kind: ClusterServiceVersion\n"
FILES = {"manifests/csv.yaml": CSV, "metadata/annotations.yaml": ANNOTATIONS}


def check(bundle: BundleView) -> list[tuple[str, str]]:
    """Return rules and locations of the findings."""
    return [(finding.rule, finding.location) for finding in findings(bundle, "format")]


def test_a_valid_bundle_has_no_findings() -> None:
    for compat in Compat:
        assert check(view(FILES, compat)) == []


def test_directories() -> None:
    assert check(view({"deploy/csv.yaml": CSV})) == [("FMT-NO-MANIFESTS-DIR", ""), ("FMT-NO-METADATA-DIR", "")]
    empty = view({"manifests/below/csv.yaml": CSV, "metadata/annotations.yaml": ANNOTATIONS})
    assert check(empty) == [("FMT-EMPTY-MANIFESTS", ""), ("ANN-MEDIATYPE-MISMATCH", "metadata/annotations.yaml:2:3")]


def test_missing_or_invalid_annotations_file() -> None:
    assert check(view({**FILES, "metadata/annotations.yaml": "a: b\n"})) == [("FMT-NO-ANNOTATIONS", "")]
    broken = view({**FILES, "metadata/annotations.yaml": "annotations:\n  a: b: c\n"})
    assert check(broken) == [("FMT-NO-ANNOTATIONS", "metadata/annotations.yaml:2:7")]


def changed(number: int, text: str) -> BundleView:
    """Return the valid bundle with one line of its annotations replaced."""
    lines = ANNOTATIONS.splitlines()
    lines[number - 1 : number] = [text] if text else []
    return view({**FILES, "metadata/annotations.yaml": "\n".join(lines)})


@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        (2, f"  {KEY}.mediatype.v1: helm", [("ANN-MEDIATYPE-MISMATCH", 2)]),
        (2, "", [("ANN-MISSING", 1), ("ANN-MEDIATYPE-MISMATCH", 1)]),
        (3, "", [("ANN-MISSING", 1)]),
        (5, "", [("ANN-MISSING", 1)]),
        (6, f"  {KEY}.channels.v1: ''", [("ANN-CHANNELS-EMPTY", 6)]),
        (6, "", [("ANN-MISSING", 1), ("ANN-CHANNELS-EMPTY", 1)]),
        (7, f"  {KEY}.channel.default.v1: ''", [("ANN-DEFAULT-CHANNEL-EMPTY", 7)]),
        (7, "", []),
        (5, f"  {KEY}.package.v1: 7", []),
    ],
)
def test_annotations(line: int, text: str, expected: list[tuple[str, int]]) -> None:
    assert [(finding.rule, finding.line) for finding in findings(changed(line, text), "format")] == expected


@pytest.mark.parametrize(
    ("files", "media_type"),
    [
        ({"manifests/a.yaml": "kind: ConfigMap\n"}, "plain"),
        ({"manifests/Chart.yaml": "name: demo\n", "manifests/csv.yaml": CSV}, "helm"),
        ({"manifests/Chart.yaml": "version: 1\n", "manifests/csv.yaml": CSV}, "registry+v1"),
        ({"manifests/a.yaml": "{", "manifests/csv.yaml": CSV}, "registry+v1"),
        ({"manifests/csv.yaml": CSV + "spec: {a: .inf}\n"}, "plain"),
    ],
)
def test_media_types(files: dict[str, str], media_type: str) -> None:
    annotations = ANNOTATIONS.replace("registry+v1", media_type)
    assert check(view({**files, "metadata/annotations.yaml": annotations})) == []


def check_dependencies(text: str, compat: Compat = Compat.OPMKIT) -> list[tuple[str, int]]:
    """Return rules and lines of the findings in a dependencies file."""
    bundle = view({**FILES, "metadata/dependencies.yaml": text}, compat)
    return [(finding.rule, finding.line) for finding in findings(bundle, "format")]


def dependency(kind: str, value: str) -> str:
    return f"dependencies:\n- type: {kind}\n  value:\n    {value}\n"


VALID = [
    dependency("olm.gvk", "{group: example.com, version: v1, kind: Demo}"),
    dependency("olm.package", "{packageName: demo, version: '>=1.0.0 <2.0.0 || 3.x'}"),
    dependency("olm.label", "{label: certified}"),
    dependency("olm.constraint", "{failureMessage: why, cel: {rule: 'properties.exists(p, p.type == \"a\")'}}"),
    "dependencies: []\n",
    "other: things\n",
]


@pytest.mark.parametrize("compat", Compat)
@pytest.mark.parametrize("text", VALID)
def test_valid_dependencies_have_no_findings(text: str, compat: Compat) -> None:
    assert check_dependencies(text, compat) == []


@pytest.mark.parametrize("compat", Compat)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (dependency("olm.crd", "{name: demos}"), [("DEP-UNPARSABLE", 2)]),
        ("dependencies:\n- type: olm.package\n", [("DEP-UNPARSABLE", 2)]),
        (dependency("olm.package", '\'{"packageName": "demo"}\''), [("DEP-UNPARSABLE", 3)]),
        (dependency("olm.package", "{packageName: demo, version: 1}"), [("DEP-UNPARSABLE", 3)]),
        (dependency("olm.gvk", "{kind: Demo}"), [("DEP-GVK-GROUP", 3), ("DEP-GVK-VERSION", 3)]),
        (dependency("olm.gvk", "{group: g, version: v1, kind: ''}"), [("DEP-GVK-KIND", 4)]),
        (dependency("olm.package", "{version: 1.0.0}"), [("DEP-PACKAGE-NAME", 3)]),
        (dependency("olm.package", "{packageName: demo, versionRange: 1.0.0}"), [("DEP-PACKAGE-VERSION", 3)]),
        (dependency("olm.package", "{packageName: demo, version: ^1.0.0}"), [("DEP-PACKAGE-RANGE", 4)]),
        (dependency("olm.label", ""), [("DEP-LABEL", 3)]),
        (dependency("olm.constraint", "{failureMessage: why}"), [("DEP-CEL-MISSING", 3)]),
        (dependency("olm.constraint", "{cel: {rule: ''}}"), [("DEP-CEL-RULE", 4)]),
        (dependency("olm.constraint", "{cel: {rule: 'property == 1'}}"), [("DEP-CEL-INVALID", 4)]),
        (dependency("olm.constraint", "{cel: {rule: '1 + 1'}}"), [("DEP-CEL-INVALID", 4)]),
        (dependency("olm.constraint", "{cel: {rule: 'properties[0].value'}}"), [("DEP-CEL-INVALID", 4)]),
    ],
)
def test_invalid_dependencies(text: str, expected: list[tuple[str, int]], compat: Compat) -> None:
    assert check_dependencies(text, compat) == expected


COMPOUND = """\
dependencies:
- type: olm.constraint
  value:
    all:
      constraints:
      - package: {packageName: demo, versionRange: '>=1.0.0'}
      - any:
          constraints:
          - gvk: {group: example.com, version: v1, kind: Demo}
          - cel: {rule: 'true'}
      - not:
          constraints:
          - package: {packageName: old, versionRange: 1.x}
"""


EMPTY_AND_UNKNOWN = [("DEP-CONSTRAINT-SHAPE", 6), ("DEP-CONSTRAINT-SHAPE", 4)]


def test_go_validators_support_only_cel_constraints() -> None:
    assert check_dependencies(COMPOUND) == []
    assert check_dependencies(COMPOUND, Compat.NEWEST) == [("DEP-CEL-MISSING", 3)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("kind: Demo", "kind: ''", [("DEP-GVK-KIND", 9)]),
        ("'>=1.0.0'", "^1", [("DEP-PACKAGE-RANGE", 6)]),
        ("versionRange: 1.x", "version: 1.x", [("DEP-PACKAGE-VERSION", 13), ("DEP-CONSTRAINT-SHAPE", 13)]),
        ("'true'", "'1'", [("DEP-CEL-INVALID", 10)]),
        ("- not:", "- nor:", [("DEP-CEL-MISSING", 11), ("DEP-CONSTRAINT-SHAPE", 11)]),
        ("      - any:", "      - cel: {rule: 'true'}\n        any:", [("DEP-CONSTRAINT-SHAPE", 7)]),
        ("          - cel: {rule: 'true'}", "          - text", [("DEP-UNPARSABLE", 10)]),
        ("    all:\n      constraints:", "    all:\n      constraints: []\n    ignored:", EMPTY_AND_UNKNOWN),
    ],
)
def test_invalid_nested_constraints(before: str, after: str, expected: list[tuple[str, int]]) -> None:
    assert check_dependencies(COMPOUND.replace(before, after)) == expected


def test_limits_of_constraints() -> None:
    deep = "{not: {constraints: [" * 40 + "{gvk: {}}" + "]}}" * 40
    large = "{failureMessage: " + "x" * 140_000 + ", gvk: {group: g, version: v1, kind: K}}"
    assert check_dependencies(dependency("olm.constraint", deep)) == [("DEP-CONSTRAINT-SHAPE", 4)]
    assert check_dependencies(dependency("olm.constraint", large)) == [("DEP-CONSTRAINT-SHAPE", 3)]


def test_go_validators_ignore_an_unreadable_dependencies_file() -> None:
    for text, line in (("dependencies: [\n", 2), ("dependencies: none\n", 1), ("dependencies:\n- text\n", 2)):
        assert check_dependencies(text) == [("DEP-UNPARSABLE", line)]
        assert check_dependencies(text, Compat.OPM_1_26) == []


def test_go_validators_accept_an_alternative_without_versions() -> None:
    text = dependency("olm.package", "{packageName: demo, version: 1.0.0 || || 2.0.0}")
    assert check_dependencies(text) == [("DEP-PACKAGE-RANGE", 4)]
    assert check_dependencies(text, Compat.NEWEST) == []


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("semver_compare(properties[0].value, '1.0.0') > 0", ""),
        ("semver_compare('1.0.0') > 0", "undeclared reference to 'semver_compare' (at 1:15)"),
        ("a ==", "Syntax error"),
        ("a" + ".b" * 1000, "recursion depth"),
        ("(" * 1000 + "true" + ")" * 1000, "recursion limit"),
        ("x" * 20_000, "20000 characters"),
        ("\ud800", "surrogate"),
    ],
)
def test_compiling_cel_rules(rule: str, problem: str) -> None:
    found = compile_problem(rule)
    assert (problem in found) if problem else found == ""


def test_a_bundle_with_cel_rules_fails_without_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_problem.__globals__["_environment"].cache_clear()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    text = dependency("olm.constraint", "{cel: {rule: 'true'}}")
    found = findings(view({**FILES, "metadata/dependencies.yaml": text}), "format")
    assert [(finding.rule, finding.severity) for finding in found] == [("DEP-CEL-INVALID", Severity.ERROR)]
    assert found[0].message.startswith("cannot check the CEL rule: cel-expr-python cannot be loaded: ")
    assert "Install the extra in a checkout of opmkit: pip install '.[cel]'. " in found[0].hint
