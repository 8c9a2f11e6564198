"""JUnit XML, which CI servers show: a suite a bundle, a case a rule that found something."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from opmkit.imagetools.escape import escape_controls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.bundle.finding import Finding, Severity
    from opmkit.bundle.validation.result import ValidationResult


def report(verdicts: Sequence[ValidationResult], fail_on: Severity) -> str:
    """The document. What is less grave than ``fail_on`` is in a case that passes, as its output."""
    root = ET.Element("testsuites", name="bundle validation")
    for verdict in verdicts:
        root.append(_suite(verdict, fail_on))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(verdict: ValidationResult, fail_on: Severity) -> ET.Element:
    suite = ET.Element("testsuite", name=escape_controls(verdict.target))
    if verdict.error:
        case = ET.SubElement(suite, "testcase", classname=escape_controls(verdict.target), name="read")
        ET.SubElement(case, "error", message=escape_controls(verdict.error)).text = escape_controls(str(verdict.hint))
    elif not verdict.findings:
        ET.SubElement(suite, "testcase", classname=escape_controls(verdict.target), name="all rules")
    for rule, findings in groupby(sorted(verdict.findings, key=lambda finding: finding.rule), lambda one: one.rule):
        case = ET.SubElement(suite, "testcase", classname=escape_controls(verdict.target), name=escape_controls(rule))
        for finding in findings:
            _outcome(case, finding, fail_on)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in suite)))
    suite.set("errors", str(sum(case.find("error") is not None for case in suite)))
    return suite


def _outcome(case: ET.Element, finding: Finding, fail_on: Severity) -> None:
    place = f"{finding.location}: " if finding.file else ""
    text = "\n".join(escape_controls(part) for part in (f"{place}{finding.message}", finding.hint) if part)
    if finding.severity in ("error", fail_on):
        failure = ET.SubElement(case, "failure", message=escape_controls(finding.message), type=finding.severity.value)
        failure.text = text
    else:
        output = case.find("system-out")
        output = ET.SubElement(case, "system-out") if output is None else output
        output.text = "\n".join(part for part in (output.text, text) if part)
