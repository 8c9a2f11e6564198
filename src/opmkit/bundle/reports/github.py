"""Workflow commands of GitHub Actions, which annotate the lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.escape import escape_controls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.bundle.finding import Finding, TargetResult


def lines(results: Sequence[TargetResult]) -> Iterator[str]:
    """Yield one command per finding; file paths are relative to the working directory."""
    for result in results:
        if result.error:
            yield f"::error title=not readable::{_data(result.located_error)}"
        for finding in result.findings:
            yield _command(result, finding, finding.severity, finding.rule, finding.hint)
        for allowed in result.allowed:
            yield _command(result, allowed.finding, "notice", f"{allowed.finding.rule} allowed", allowed.reason)
        for notice in result.notices:
            yield f"::warning title=policy::{_data(notice)}"


def _command(result: TargetResult, finding: Finding, level: str, title: str, details: str) -> str:
    properties = {"title": title}
    if finding.file:
        properties["file"] = f"{result.target.rstrip('/')}/{finding.file}".removeprefix("./")
    if finding.line:
        properties["line"] = str(finding.line)
    if finding.column:
        properties["col"] = str(finding.column)
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    text = "%0A".join(map(_data, filter(None, (finding.text, details))))
    return f"::{level} {listed}::{text}"


def _data(text: str) -> str:
    """Escape text for the data of a command; line breaks are escaped visibly, since the message is one line."""
    return escape_controls(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
