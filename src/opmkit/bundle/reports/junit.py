"""JUnit XML for CI servers: one test suite per target, one test case per rule with findings."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from opmkit.core.escape import escape_controls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.bundle.finding import Finding, Severity, TargetResult


def report(results: Sequence[TargetResult], fail_on: Severity, *, name: str = "bundle validation") -> str:
    """Return the document with this name.

    Findings below the severity ``fail_on`` are the output of passing test cases, and allowed ones skipped test cases.
    """
    root = ET.Element("testsuites", name=name)
    for result in results:
        root.append(_suite(result, fail_on))
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(result: TargetResult, fail_on: Severity) -> ET.Element:
    suite = ET.Element("testsuite", name=escape_controls(result.target))
    if result.error:
        case = ET.SubElement(suite, "testcase", classname=escape_controls(result.target), name="read")
        ET.SubElement(case, "error", message=escape_controls(result.error)).text = escape_controls(str(result.hint))
    elif not (result.findings or result.allowed):
        ET.SubElement(suite, "testcase", classname=escape_controls(result.target), name="all rules")
    for rule, findings in groupby(sorted(result.findings, key=_rule), _rule):
        case = ET.SubElement(suite, "testcase", classname=escape_controls(result.target), name=escape_controls(rule))
        for finding in findings:
            _add_finding(case, finding, fail_on)
    for allowed in result.allowed:
        name = escape_controls(allowed.finding.rule)
        case = ET.SubElement(suite, "testcase", classname=escape_controls(result.target), name=name)
        ET.SubElement(case, "skipped", message=escape_controls(f"allowed: {allowed.reason}")).text = _text(
            allowed.finding
        )
    suite.set("tests", str(len(suite)))
    suite.set("skipped", str(len(result.allowed)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in suite)))
    suite.set("errors", str(sum(case.find("error") is not None for case in suite)))
    if result.notices:
        ET.SubElement(suite, "system-err").text = "\n".join(map(escape_controls, result.notices))
    return suite


def _rule(finding: Finding) -> str:
    return finding.rule


def _add_finding(case: ET.Element, finding: Finding, fail_on: Severity) -> None:
    text = _text(finding)
    if finding.severity in ("error", fail_on):
        failure = ET.SubElement(case, "failure", message=escape_controls(finding.text), type=finding.severity.value)
        failure.text = text
    else:
        output = case.find("system-out")
        output = ET.SubElement(case, "system-out") if output is None else output
        output.text = "\n".join(part for part in (output.text, text) if part)


def _text(finding: Finding) -> str:
    location = f"{finding.location}: " if finding.file else ""
    return "\n".join(escape_controls(part) for part in (f"{location}{finding.text}", finding.hint) if part)
