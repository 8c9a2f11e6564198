"""Text report: findings by bundle and file, with the offending lines; findings of several bundles are printed once."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.sources import SkippedTags
from opmkit.core.escape import escape_controls

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from opmkit.bundle.finding import Finding, TargetResult

    _FindingKey: TypeAlias = tuple[Severity, str, str, str]
    _Occurrence: TypeAlias = tuple[str, Finding]
    """A target and a finding for it."""

MAX_OCCURRENCES = 10
"""Maximum number of listed occurrences of a finding in several bundles; other formats list all."""
_NONE_SKIPPED = SkippedTags()
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow"}


def lines(results: Sequence[TargetResult], skipped: SkippedTags = _NONE_SKIPPED) -> Iterator[tuple[str, str]]:
    """Yield lines with their rich styles, or "" if there is none.

    A finding with the same text in several bundles is printed once, after the bundles, with its occurrences.
    """
    shared = _shared_findings(results)
    for result in results:
        for line, style in _bundle(result, shared):
            yield escape_controls(line), style
    for occurrences in sorted(shared.values(), key=_shared_order):
        for line, style in _shared(occurrences):
            yield escape_controls(line), style
    yield summary(results, skipped), ""


def _shared_order(occurrences: Sequence[_Occurrence]) -> tuple[Severity, str]:
    _, finding = occurrences[0]
    return finding.severity, finding.rule


def summary(results: Sequence[TargetResult], skipped: SkippedTags = _NONE_SKIPPED, *, noun: str = "bundle") -> str:
    """Return the totals as one line; ``noun`` is the singular of the kind of target."""
    unread = sum(bool(result.error) for result in results)
    parts = [
        _plural(len(results), noun),
        _plural(sum(result.count(Severity.ERROR) for result in results), "error"),
        _plural(sum(result.count(Severity.WARNING) for result in results), "warning"),
    ]
    allowed = sum(len(result.allowed) for result in results)
    parts += [f"{allowed} allowed"] * bool(allowed) + [f"{unread} not readable"] * bool(unread)
    return ", ".join(parts) + f" (skipped {skipped})" * bool(skipped.total)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _shared_findings(results: Sequence[TargetResult]) -> dict[_FindingKey, list[_Occurrence]]:
    """Group the findings that more than one bundle has, by text."""
    groups: dict[_FindingKey, list[_Occurrence]] = {}
    for result in results:
        for finding in sorted(result.findings, key=_order):
            groups.setdefault(_key(finding), []).append((result.target, finding))
    return {text: occurrences for text, occurrences in groups.items() if len({target for target, _ in occurrences}) > 1}


def _key(finding: Finding) -> _FindingKey:
    return finding.severity, finding.rule, finding.message, finding.hint


def _shared(occurrences: Sequence[_Occurrence]) -> Iterator[tuple[str, str]]:
    finding = occurrences[0][1]
    yield f"{finding.severity} {finding.rule}: {finding.message}", _STYLES[finding.severity]
    yield from _details(finding, indent="  ")
    yield f"  in {len({target for target, _ in occurrences})} bundles:", ""
    for target, occurrence in occurrences[:MAX_OCCURRENCES]:
        yield f"    {target.rstrip('/')}/{occurrence.location}" if occurrence.file else f"    {target}", ""
    if len(occurrences) > MAX_OCCURRENCES:
        yield f"    and {len(occurrences) - MAX_OCCURRENCES} more", ""


def _bundle(result: TargetResult, shared: Container[_FindingKey]) -> Iterator[tuple[str, str]]:
    if result.error:
        yield result.located_error, _STYLES[Severity.ERROR]
        if result.hint:
            yield f"  hint: {result.hint}", ""
        return
    if not result.findings:
        yield f"{result.target}: no findings", "green"
    own = sorted((finding for finding in result.findings if _key(finding) not in shared), key=_order)
    if own:
        yield f"{result.target}:", "bold"
    for file, findings in groupby(own, key=lambda finding: finding.file):
        if file:
            yield f"  {file}", "underline"
        for finding in findings:
            yield from _finding(finding)
    for allowed in result.allowed:
        location = f"{allowed.finding.location}: " if allowed.finding.file else ""
        yield f"  allowed {allowed.finding.rule}: {location}{allowed.finding.text}", "dim"
        yield f"    reason: {allowed.reason}", "dim"


def _order(finding: Finding) -> tuple[str, int, int, Severity, str]:
    return finding.file, finding.line, finding.column, finding.severity, finding.rule


def _finding(finding: Finding) -> Iterator[tuple[str, str]]:
    location = f"{finding.line}:{finding.column} " if finding.line else ""
    yield f"    {location}{finding.severity} {finding.rule}: {finding.message}", _STYLES[finding.severity]
    yield from _details(finding, indent="      ")


def _details(finding: Finding, *, indent: str) -> Iterator[tuple[str, str]]:
    if finding.excerpt:
        yield f"{indent}| {finding.excerpt}", "dim"
    if finding.hint:
        yield f"{indent}hint: {finding.hint}", ""
