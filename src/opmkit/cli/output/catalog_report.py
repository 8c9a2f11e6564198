"""Reports of ``opm validate``."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opmkit.cli.output.console import format_count, print_commands, print_json, print_text, print_yaml
from opmkit.cli.output.errors import print_hint, print_to_stderr, print_warning
from opmkit.cli.output.server_logs import format_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit import CatalogResult, Finding, Severity

MAX_PLACES = 9
"""Further places of a finding that are printed."""


class CatalogReportFormat(StrEnum):
    """Formats of a report."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    MARKDOWN = "markdown"


def print_catalog_report(
    result: CatalogResult, form: CatalogReportFormat, fail_on: Severity, *, as_go: bool = False
) -> None:
    """Print the result in a format.

    With ``as_go``, warnings about a catalog that Go opm accepts are omitted, except that it is empty, and the record of
    Go opm's log is printed for another one, in which scripts search for words.
    """
    match form:
        case CatalogReportFormat.TEXT:
            _print_findings(_only_emptiness(result) if as_go and result.passed else result)
            if as_go and not result.passed:
                print_to_stderr(format_record("fatal", _tree(result), {}))
        case CatalogReportFormat.JSON:
            print_json(result.to_dict(fail_on))
            return
        case CatalogReportFormat.YAML:
            print_yaml([result.to_dict(fail_on)])
            return
        case CatalogReportFormat.SARIF:
            print_json(result.to_sarif())
        case CatalogReportFormat.JUNIT:
            print_text(result.to_junit(fail_on).removesuffix("\n"))
        case CatalogReportFormat.GITHUB:
            print_commands(result.github_lines())
        case CatalogReportFormat.MARKDOWN:
            print_text(result.to_markdown(fail_on))
    if not result.passes(fail_on):
        _print_failure(result, fail_on)


def _only_emptiness(result: CatalogResult) -> CatalogResult:
    return replace(result, findings=tuple(finding for finding in result.findings if finding.rule == "FBC-EMPTY"))


def _tree(result: CatalogResult) -> str:
    """Return the errors below their packages, channels and bundles, in the words of Go opm."""
    root: dict[str, Any] = {}
    for finding in result.errors:
        node = root
        for kind in ("package", "channel", "bundle"):
            if name := getattr(finding, kind, ""):
                node = node.setdefault(f'invalid {kind} "{name}":', {})
        node[finding.message] = {}
    return "\n".join(["invalid index:", *_branches(root)])


def _branches(node: Mapping[str, Any]) -> Iterator[str]:
    for number, (text, below) in enumerate(node.items(), 1):
        is_last = number == len(node)
        yield f"{'└── ' if is_last else '├── '}{text}"
        yield from (f"{'    ' if is_last else '│   '}{line}" for line in _branches(below))


def _print_findings(result: CatalogResult) -> None:
    """Print findings to stderr as ``FILE:LINE: SEVERITY: MESSAGE [RULE]``; one message about several places once."""
    directory = f"{result.target.rstrip('/')}/" if Path(result.target).is_dir() else ""
    for first, *others in result.grouped_findings():
        location = f"{directory}{first.location}: " if first.file else ""
        print_to_stderr(f"{location}{first.severity}: {first.text} [{first.rule}]")
        print_hint(first.hint)
        _print_others(first, others, directory)
    for allowed in result.allowed:
        location = f"{directory}{allowed.finding.location}: " if allowed.finding.file else ""
        print_to_stderr(f"{location}allowed: {allowed.finding.text} [{allowed.finding.rule}]")
        print_to_stderr(f"  reason: {allowed.reason}")
    for notice in result.notices:
        print_warning(notice)


def _print_others(first: Finding, others: Sequence[Finding], directory: str) -> None:
    """Print the places of other findings like the first, which name the package already."""
    if others:
        print_to_stderr(f"  and in {format_count(len(others), 'other place')}:")
    for finding in others[:MAX_PLACES]:
        location = f"{directory}{finding.location}" if finding.file else ""
        subject = finding.subject.removeprefix(f"{first.subject.partition(', ')[0]}, ")
        print_to_stderr(f"    {': '.join(filter(None, (location, subject)))}")
    if len(others) > MAX_PLACES:
        print_to_stderr(f"    and {len(others) - MAX_PLACES} more, which --output json lists")


def _print_failure(result: CatalogResult, fail_on: Severity) -> None:
    """Print the first finding that makes the command fail, and the totals, as the ``Error:`` line to stderr."""
    from opmkit import Severity

    failures = [str(finding) for finding in result.findings if finding.fails(fail_on)]
    counts = [format_count(result.count(severity), severity.value) for severity in Severity]
    counts += [f"{len(result.allowed)} allowed"] if result.allowed else []
    first = [*failures, *result.notices][0]
    print_to_stderr(f"Error: {result.target}: invalid catalog: {first} ({', '.join(counts)})")
