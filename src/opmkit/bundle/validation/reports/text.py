"""The report for people: bundle by bundle, file by file, with the offending lines."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from opmkit.bundle.validation.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.bundle.validation.finding import Finding
    from opmkit.bundle.validation.verdict import Verdict

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow"}


def lines(verdicts: Sequence[Verdict]) -> Iterator[tuple[str, str]]:
    """Lines and the styles (of rich, "" for none) that they have on a terminal."""
    for verdict in verdicts:
        for line, style in _bundle(verdict):
            yield without_controls(line), style
    yield summary(verdicts), ""


def without_controls(text: str) -> str:
    """The text with escapes for what a terminal takes for commands; a bundle may have it anywhere."""
    return _CONTROL.sub(lambda sign: repr(sign[0])[1:-1], text)


def summary(verdicts: Sequence[Verdict]) -> str:
    """All of it in one line."""
    unread = sum(bool(verdict.error) for verdict in verdicts)
    parts = [
        _many(len(verdicts), "bundle"),
        _many(sum(verdict.count(Severity.ERROR) for verdict in verdicts), "error"),
        _many(sum(verdict.count(Severity.WARNING) for verdict in verdicts), "warning"),
    ]
    return ", ".join([*parts, f"{unread} not readable"] if unread else parts)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _bundle(verdict: Verdict) -> Iterator[tuple[str, str]]:
    if verdict.error:
        yield f"{verdict.target}: {verdict.error}", _STYLES[Severity.ERROR]
        if verdict.advice:
            yield f"  hint: {verdict.advice}", ""
        return
    if not verdict.findings:
        yield f"{verdict.target}: all is well", "green"
        return
    yield f"{verdict.target}:", "bold"
    for file, findings in groupby(sorted(verdict.findings, key=_order), key=lambda finding: finding.file):
        if file:
            yield f"  {file}", "underline"
        for finding in findings:
            yield from _finding(finding)


def _order(finding: Finding) -> tuple[str, int, int, Severity, str]:
    return finding.file, finding.line, finding.column, finding.severity, finding.rule


def _finding(finding: Finding) -> Iterator[tuple[str, str]]:
    place = f"{finding.line}:{finding.column} " if finding.line else ""
    yield f"    {place}{finding.severity} {finding.rule}: {finding.message}", _STYLES[finding.severity]
    if finding.excerpt:
        yield f"      | {finding.excerpt}", "dim"
    if finding.remedy:
        yield f"      hint: {finding.remedy}", ""
