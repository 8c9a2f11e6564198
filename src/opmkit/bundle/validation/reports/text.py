"""The report for people: by bundle and file, with the offending lines; findings that several bundles share, once."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.tags import SkippedTags
from opmkit.imagetools.escape import escape_controls

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.result import ValidationResult

    _Text: TypeAlias = tuple[Severity, str, str, str]
    _Placed: TypeAlias = tuple[str, Finding]
    """A target and what was found there."""

MAX_PLACES = 10
"""Places that are listed of a finding which several bundles share; the other reports have them all."""
_NONE_SKIPPED = SkippedTags()
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow"}


def lines(verdicts: Sequence[ValidationResult], skipped: SkippedTags = _NONE_SKIPPED) -> Iterator[tuple[str, str]]:
    """Return lines with their styles on a terminal (of rich, "" for none).

    A finding with the same text in several bundles is printed once, behind the bundles, with the places of it.
    """
    shared = _shared_findings(verdicts)
    for verdict in verdicts:
        for line, style in _bundle(verdict, shared):
            yield escape_controls(line), style
    for places in sorted(shared.values(), key=lambda places: (places[0][1].severity, places[0][1].rule)):
        for line, style in _shared(places):
            yield escape_controls(line), style
    yield summary(verdicts, skipped), ""


def summary(verdicts: Sequence[ValidationResult], skipped: SkippedTags = _NONE_SKIPPED) -> str:
    """Return the totals in one line."""
    unread = sum(bool(verdict.error) for verdict in verdicts)
    parts = [
        _many(len(verdicts), "bundle"),
        _many(sum(verdict.count(Severity.ERROR) for verdict in verdicts), "error"),
        _many(sum(verdict.count(Severity.WARNING) for verdict in verdicts), "warning"),
    ]
    parts += [f"{unread} not readable"] * bool(unread)
    return ", ".join(parts) + f" (skipped {skipped})" * bool(skipped.total)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _shared_findings(verdicts: Sequence[ValidationResult]) -> dict[_Text, list[_Placed]]:
    """Group the findings that more than one bundle has, by text."""
    groups: dict[_Text, list[_Placed]] = {}
    for verdict in verdicts:
        for finding in sorted(verdict.findings, key=_order):
            groups.setdefault(_text(finding), []).append((verdict.target, finding))
    return {text: places for text, places in groups.items() if len({target for target, _ in places}) > 1}


def _text(finding: Finding) -> _Text:
    return finding.severity, finding.rule, finding.message, finding.hint


def _shared(places: Sequence[_Placed]) -> Iterator[tuple[str, str]]:
    finding = places[0][1]
    yield f"{finding.severity} {finding.rule}: {finding.message}", _STYLES[finding.severity]
    yield from _details(finding, indent="  ")
    yield f"  in {len({target for target, _ in places})} bundles:", ""
    for target, one in places[:MAX_PLACES]:
        yield f"    {target.rstrip('/')}/{one.location}" if one.file else f"    {target}", ""
    if len(places) > MAX_PLACES:
        yield f"    and {len(places) - MAX_PLACES} more", ""


def _bundle(verdict: ValidationResult, shared: Container[_Text]) -> Iterator[tuple[str, str]]:
    if verdict.error:
        yield f"{verdict.target}: {verdict.error}", _STYLES[Severity.ERROR]
        if verdict.hint:
            yield f"  hint: {verdict.hint}", ""
        return
    if not verdict.findings:
        yield f"{verdict.target}: all is well", "green"
        return
    own = sorted((one for one in verdict.findings if _text(one) not in shared), key=_order)
    if own:
        yield f"{verdict.target}:", "bold"
    for file, findings in groupby(own, key=lambda finding: finding.file):
        if file:
            yield f"  {file}", "underline"
        for finding in findings:
            yield from _finding(finding)


def _order(finding: Finding) -> tuple[str, int, int, Severity, str]:
    return finding.file, finding.line, finding.column, finding.severity, finding.rule


def _finding(finding: Finding) -> Iterator[tuple[str, str]]:
    place = f"{finding.line}:{finding.column} " if finding.line else ""
    yield f"    {place}{finding.severity} {finding.rule}: {finding.message}", _STYLES[finding.severity]
    yield from _details(finding, indent="      ")


def _details(finding: Finding, *, indent: str) -> Iterator[tuple[str, str]]:
    if finding.excerpt:
        yield f"{indent}| {finding.excerpt}", "dim"
    if finding.hint:
        yield f"{indent}hint: {finding.hint}", ""
