"""Workflow commands of GitHub Actions, which show findings beside the lines of a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.validation.reports.text import without_controls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.bundle.validation.finding import Finding
    from opmkit.bundle.validation.verdict import Verdict


def lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """One command a finding; files are named by where the bundle was read from."""
    for verdict in verdicts:
        if verdict.error:
            yield f"::error title=not readable::{_data(f'{verdict.target}: {verdict.error}')}"
        for finding in verdict.findings:
            yield _command(verdict, finding)


def _command(verdict: Verdict, finding: Finding) -> str:
    properties = {"title": finding.rule}
    if finding.file:
        properties["file"] = f"{verdict.target.rstrip('/')}/{finding.file}".removeprefix("./")
    if finding.line:
        properties |= {"line": str(finding.line), "col": str(finding.column)}
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    hint = f"\n{finding.remedy}" if finding.remedy else ""
    return f"::{finding.severity} {listed}::{_data(finding.message + hint)}"


def _data(text: str) -> str:
    return without_controls(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
