"""Report formats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree as ET

import pytest

from opmkit.bundle.finding import AllowedFinding, Finding, Severity
from opmkit.bundle.reports import github, junit, markdown, sarif, text
from opmkit.bundle.reports import json as json_report
from opmkit.bundle.source import parse_location
from opmkit.bundle.validation.result import ValidationResult
from opmkit.bundle.validation.rule import rule
from opmkit.core.hints import Hint
from tests.kit.uris import is_uri_reference

if TYPE_CHECKING:
    from opmkit.bundle.validation.bundle_view import BundleView

BAD = Finding(
    "spec.x is 7%",
    "manifests/a b.yaml",
    subject="x",
    hint="Write 6,\nor: less.",
    line=3,
    column=5,
    rule="CSV-X",
    validator="csv",
    excerpt="x: 7%",
)
SHARED_WARNING = Finding("y is \x00 odd & <long>", severity=Severity.WARNING, rule="GP-Y", validator="good-practices")
SINGLE_WARNING = Finding("z", severity=Severity.WARNING, rule="GP-Z", validator="good-practices")
RESULTS = [
    ValidationResult("./demo", (SHARED_WARNING, BAD), "demo.v1.0.0", package="demo"),
    ValidationResult("quay.io/me/fine:1", (), "fine.v1.0.0", package="fine"),
    ValidationResult("quay.io/me/gone:1", error="not found", hint=Hint("pass another image")),
]


@rule("CSV-X", "csv", Severity.ERROR, "x is too large", hint="Write less.")
def _x(_bundle: BundleView) -> list[Finding]:
    """Large x break clusters."""
    return []


def test_text() -> None:
    assert [line for line, _ in text.lines(RESULTS)] == [
        "./demo:",
        "    warning GP-Y: y is \\x00 odd & <long>",
        "  manifests/a b.yaml",
        "    3:5 error CSV-X: spec.x is 7%",
        "      | x: 7%",
        "      hint: Write 6,\\nor: less.",
        "quay.io/me/fine:1: no findings",
        "quay.io/me/gone:1: not found",
        "  hint: pass another image",
        "3 bundles, 1 error, 1 warning, 1 not readable",
    ]


def test_text_prints_shared_findings_once() -> None:
    results = [
        ValidationResult(
            f"quay.io/me/demo:{number}",
            (SHARED_WARNING, replace(BAD, line=number), *([SINGLE_WARNING] if number == 2 else [])),
        )
        for number in range(1, 13)
    ]
    assert [line for line, _ in text.lines(results)] == [
        "quay.io/me/demo:2:",
        "    warning GP-Z: z",
        "error CSV-X: spec.x is 7%",
        "  | x: 7%",
        "  hint: Write 6,\\nor: less.",
        "  in 12 bundles:",
        *(f"    quay.io/me/demo:{number}/manifests/a b.yaml:{number}:5" for number in range(1, 11)),
        "    and 2 more",
        "warning GP-Y: y is \\x00 odd & <long>",
        "  in 12 bundles:",
        *(f"    quay.io/me/demo:{number}" for number in range(1, 11)),
        "    and 2 more",
        "12 bundles, 12 errors, 13 warnings",
    ]


def test_json() -> None:
    report = json_report.report(RESULTS, Severity.ERROR)
    assert (report["version"], report["passed"], report["errors"], report["warnings"]) == (1, False, 1, 1)
    demo, fine, gone = report["bundles"]
    assert (demo["passed"], fine["passed"], gone["passed"]) == (False, True, False)
    assert gone["error"] == {"message": "not found", "hint": "pass another image"}
    assert demo["findings"][1] == {
        "rule": "CSV-X",
        "validator": "csv",
        "severity": "error",
        "message": "spec.x is 7%",
        "hint": "Write 6,\nor: less.",
        "subject": "x",
        "file": "manifests/a b.yaml",
        "line": 3,
        "column": 5,
    }
    json.dumps(report)


@pytest.mark.parametrize(
    ("findings", "fail_on", "passes"),
    [
        ((), Severity.WARNING, True),
        ((SHARED_WARNING,), Severity.ERROR, True),
        ((SHARED_WARNING,), Severity.WARNING, False),
        ((BAD,), Severity.ERROR, False),
        ((BAD,), Severity.WARNING, False),
    ],
)
def test_passes(findings: tuple[Finding, ...], fail_on: Severity, passes: bool) -> None:
    assert ValidationResult("demo", findings).passes(fail_on) is passes


def test_json_alpha1() -> None:
    assert json_report.json_alpha1(RESULTS[0]) == {
        "passed": False,
        "outputs": [
            {"type": "warning", "message": SHARED_WARNING.message},
            {"type": "error", "message": BAD.message},
        ],
    }
    assert json_report.json_alpha1(RESULTS[2])["outputs"] == [{"type": "error", "message": "not found"}]
    assert json_report.json_alpha1(RESULTS[1]) == {"passed": True, "outputs": None}


def test_sarif() -> None:
    report = sarif.report(RESULTS, {"CSV-X": _x})
    assert report["version"] == "2.1.0"
    (run,) = report["runs"]
    known, unknown = run["tool"]["driver"]["rules"]
    assert (known["id"], known["fullDescription"]["text"]) == ("CSV-X", "Large x break clusters.")
    assert unknown == {"id": "GP-Y"}
    assert [result["ruleId"] for result in run["results"]] == ["GP-Y", "CSV-X"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    location = run["results"][1]["locations"][0]["physicalLocation"]
    assert location == {
        "artifactLocation": {"uri": "demo/manifests/a%20b.yaml"},
        "region": {"startLine": 3, "startColumn": 5},
    }
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "quay.io/me/gone:1" in invocation["toolExecutionNotifications"][0]["message"]["text"]


DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("target", "root"),
    [
        ("127.0.0.1:5000/me/demo:v1", "docker://127.0.0.1:5000/me/demo:v1/"),
        ("[::1]:5000/me/demo:v1", "docker://[::1]:5000/me/demo:v1/"),
        ("demo:v1", "docker://docker.io/library/demo:v1/"),
        (f"docker://quay.io/me/demo@{DIGEST}", f"docker://quay.io/me/demo@{DIGEST}/"),
        ("oci:../a b:v1", "oci:../a%20b:v1/"),
        ("oci://layout:v1", "oci:/layout:v1/"),
        ("store:demo:v1", "store:demo:v1/"),
        (f"docker-daemon:{DIGEST}", f"docker-daemon:{DIGEST}/"),
        (".", ""),
        ("./", ""),
        ("..", "../"),
        ("./a.", "a./"),
        ("./host:5000/demo#?", "host%3A5000/demo%23%3F/"),
        ("/", "file:/"),
        ("//srv/bundles/", "file:///srv/bundles/"),
    ],
)
@pytest.mark.parametrize("file", ["manifests/a b:\u00e4%.yaml", "c:.yaml", ""])
def test_sarif_uris(target: str, root: str, file: str) -> None:
    location = Path(target) if target[0] in "./" else parse_location(target)
    validated = ValidationResult(target, (replace(BAD, file=file),))
    (result,) = sarif.report([validated], {}, {target: sarif.target_uri(target, location)})["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert is_uri_reference(uri)
    if file:
        assert uri == root + quote(file)
    else:
        assert uri.rstrip("/") in (root.rstrip("/"), ".", "file:")


def test_sarif_fingerprints_do_not_depend_on_lines() -> None:
    moved = Finding(BAD.message, subject=BAD.subject, hint=BAD.hint, rule=BAD.rule, validator=BAD.validator)
    reports = [
        sarif.report([ValidationResult("./demo", (finding,), "demo.v1.0.0")], {})
        for finding in (BAD, replace(BAD, message="x", hint="", line=99, column=1), moved)
    ]
    fingerprints = [report["runs"][0]["results"][0]["partialFingerprints"] for report in reports]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def test_junit() -> None:
    root = ET.fromstring(junit.report(RESULTS, Severity.ERROR))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "1", "1")
    demo, fine, gone = root
    assert {case.get("name") for case in demo} == {"CSV-X", "GP-Y"}
    failure = demo.find("testcase/failure")
    assert failure is not None
    assert (failure.text or "").startswith("manifests/a b.yaml:3:5: spec.x is 7%")
    output = demo.find("testcase/system-out")
    assert output is not None
    assert output.text == r"y is \x00 odd & <long>"
    assert [len(case) for case in fine] == [0]
    assert gone.find("testcase/error") is not None
    strict = ET.fromstring(junit.report(RESULTS, Severity.WARNING))
    assert strict.get("failures") == "2"


def test_github() -> None:
    assert list(github.lines(RESULTS)) == [
        "::warning title=GP-Y::y is \\x00 odd & <long>",
        "::error title=CSV-X,file=demo/manifests/a b.yaml,line=3,col=5::spec.x is 7%25%0AWrite 6,\\nor: less.",
        "::error title=not readable::quay.io/me/gone:1: not found",
    ]


ALLOWED = ValidationResult(
    "./demo",
    allowed=(AllowedFinding(replace(BAD, message="spec.x | is `7`"), "until | 2.0"),),
    notices=("policy.yaml:3:1: nothing\nmatches",),
)


def test_allowed_findings_have_their_reasons() -> None:
    assert ALLOWED.passes(Severity.ERROR)
    assert not ALLOWED.passes(Severity.WARNING)
    assert [line for line, _ in text.lines([ALLOWED])] == [
        "./demo: no findings",
        "  allowed CSV-X: manifests/a b.yaml:3:5: spec.x | is `7`",
        "    reason: until | 2.0",
        "1 bundle, 0 errors, 0 warnings, 1 allowed",
    ]
    (allowed,) = json_report.report([ALLOWED], Severity.ERROR)["bundles"][0]["allowed"]
    assert (allowed["rule"], allowed["reason"]) == ("CSV-X", "until | 2.0")
    (run,) = sarif.report([ALLOWED], {})["runs"]
    (result,) = run["results"]
    assert result["suppressions"] == [{"kind": "external", "status": "accepted", "justification": "until | 2.0"}]
    assert run["invocations"][0]["toolConfigurationNotifications"][0]["message"]["text"] == ALLOWED.notices[0]
    root = ET.fromstring(junit.report([ALLOWED], Severity.ERROR, name="demo"))
    assert (root.get("name"), root.get("tests"), root.get("skipped"), root.get("failures")) == ("demo", "1", "1", "0")
    assert [element.tag for element in root.iter()][2:] == ["testcase", "skipped", "system-err"]
    command, notice = github.lines([ALLOWED])
    assert command.startswith("::notice title=CSV-X allowed,file=demo/manifests/a b.yaml,line=3,col=5::")
    assert command.endswith("until | 2.0")
    assert notice == "::warning title=policy::policy.yaml:3:1: nothing\\nmatches"
    assert markdown.report([ALLOWED], Severity.ERROR).splitlines() == [
        "### Validation passed: 1 bundle, 0 errors, 0 warnings, 1 allowed",
        "",
        "#### `./demo`",
        "",
        "Warning: `policy.yaml:3:1: nothing\\nmatches`",
        "",
        "Allowed by the policy:",
        "",
        "| Rule | Location | Finding | Reason |",
        "|---|---|---|---|",
        "| `CSV-X` | `manifests/a b.yaml:3:5` | `` spec.x \\| is `7` `` | `until \\| 2.0` |",
    ]


def test_markdown() -> None:
    report = markdown.report(RESULTS, Severity.ERROR)
    assert report.startswith("### Validation failed: 3 bundles, 1 error, 1 warning, 1 not readable\n")
    assert "| error | `CSV-X` | `manifests/a b.yaml:3:5` | `spec.x is 7%`<br>`Write 6,\\nor: less.` |" in report
    assert "| warning | `GP-Y` |  | `y is \\x00 odd & <long>` |" in report
    assert "#### `quay.io/me/gone:1`\n\nNot readable: `not found`" in report
    assert "fine" not in report


def test_markdown_is_limited() -> None:
    many = ValidationResult("demo", tuple(replace(BAD, line=line, message="x" * 10_000) for line in range(1, 1000)))
    report = markdown.report([many], Severity.ERROR)
    assert "and 899 more" in report
    assert len(report) < 65536
