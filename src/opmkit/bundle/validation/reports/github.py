"""Workflow commands of GitHub Actions, which show findings beside the lines of a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.imagetools.escape import escape_controls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.result import ValidationResult


def lines(verdicts: Sequence[ValidationResult]) -> Iterator[str]:
    """One command a finding; files are named by where the bundle was read from."""
    for verdict in verdicts:
        if verdict.error:
            yield f"::error title=not readable::{_data(f'{verdict.target}: {verdict.error}')}"
        for finding in verdict.findings:
            yield _command(verdict, finding)


def _command(verdict: ValidationResult, finding: Finding) -> str:
    properties = {"title": finding.rule}
    if finding.file:
        properties["file"] = f"{verdict.target.rstrip('/')}/{finding.file}".removeprefix("./")
    if finding.line:
        properties |= {"line": str(finding.line), "col": str(finding.column)}
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    text = "%0A".join(map(_data, filter(None, (finding.message, finding.hint))))
    return f"::{finding.severity} {listed}::{text}"


def _data(text: str) -> str:
    """Return the text as data of a command, on one line: GitHub would print what follows a line break as a line."""
    return escape_controls(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
