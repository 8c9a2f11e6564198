"""Report in Markdown, for a pull request or the summary of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.reports.text import summary
from opmkit.core.escape import code, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.bundle.finding import Finding, Severity, TargetResult

MAX_ROWS = 100
"""Maximum number of rows of a table: comments on GitHub have up to 65536 characters."""
MAX_TEXT = 400
"""Maximum number of characters of a message, hint or reason."""


def report(results: Sequence[TargetResult], fail_on: Severity, *, noun: str = "bundle") -> str:
    """Return a section per target with tables of its findings; values are quoted as code.

    Args:
        results: The results.
        fail_on: The lowest severity that makes the validation fail.
        noun: Singular of the kind of target, for the totals.
    """
    passed = all(result.passes(fail_on) for result in results)
    heading = f"### Validation {'passed' if passed else 'failed'}: {summary(results, noun=noun)}"
    return "\n\n".join([heading, *(section for result in results for section in _sections(result))])


def _sections(result: TargetResult) -> Iterator[str]:
    if not (result.error or result.findings or result.allowed or result.notices):
        return
    yield f"#### {code(result.target)}"
    if result.error:
        yield f"Not readable: {code(result.error)}"
    yield from (f"Warning: {code(notice)}" for notice in result.notices)
    if result.findings:
        rows = (
            (finding.severity.value, code(finding.rule), _location(finding), _text(finding.text, finding.hint))
            for finding in sorted(result.findings, key=_order)[:MAX_ROWS]
        )
        yield table(("Severity", "Rule", "Location", "Finding"), rows)
        yield from _more(len(result.findings))
    if result.allowed:
        rows = (
            (code(finding.rule), _location(finding), _shorten(finding.text), _shorten(reason))
            for finding, reason in ((allowed.finding, allowed.reason) for allowed in result.allowed[:MAX_ROWS])
        )
        yield "Allowed by the policy:"
        yield table(("Rule", "Location", "Finding", "Reason"), rows)
        yield from _more(len(result.allowed))


def _order(finding: Finding) -> tuple[Severity, str, int]:
    return finding.severity, finding.file, finding.line


def _location(finding: Finding) -> str:
    return code(finding.location) if finding.file else ""


def _text(message: str, hint: str) -> str:
    return f"{_shorten(message)}<br>{_shorten(hint)}" if hint else _shorten(message)


def _shorten(text: str) -> str:
    return code(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}...")


def _more(count: int) -> Iterator[str]:
    if count > MAX_ROWS:
        yield f"and {count - MAX_ROWS} more"
