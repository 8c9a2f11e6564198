"""Validation of bundles by ``opm bundle validate``.

The common forms of the command run without importing the parser of flags, which takes as long as the validation: those
with bundles only, and that of pipelines which name one image as Go opm does. The report about a directory that passed
and has not changed is printed again, without importing what validates.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from opmkit.api.saved_report import SavedReport
from opmkit.cli.output.streams import print_styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

POLICY_FILE = ".opm-validate.yaml"
"""Name of the policy file in the working directory."""
_TAG = ("--tag", "-t")
_TOOL = ("--image-builder", "--container-tool", "-b")


def run(arguments: list[str]) -> int:
    """Run a command line that begins with ``bundle validate`` or ``alpha bundle validate``; return its exit code."""
    line = _parse(arguments[arguments.index("validate") + 1 :])
    if line is None or os.path.lexists(POLICY_FILE):
        from opmkit.cli.main import run as run_any

        return run_any(arguments)
    saved = SavedReport.find(line.targets[0]) if len(line.targets) == 1 and not line.tag else None
    if saved and (lines := saved.read()):
        print_styled(lines)
        return 0
    from opmkit.cli.validation_run import validate_without_flags  # slow to import

    report = validate_without_flags(line.targets, line.tag, line.tool)
    if saved and report.passed and len(report) == 1:
        saved.write(report.text_lines())
    return 0 if report.passed else 1


class _CommandLine(NamedTuple):
    """The arguments, the values of --tag and --image-builder."""

    targets: tuple[str, ...]
    tag: str
    tool: str


def _parse(words: Sequence[str]) -> _CommandLine | None:
    """Return the arguments; None if they have other flags, or could be invalid."""
    values, targets, rest = {_TAG: "", _TOOL: "none"}, [], iter(words)
    for word in rest:
        if names := next((names for names in values if word in names), None):
            values[names] = next(rest, "")
            if not values[names]:
                return None
        elif word.startswith("-") or not word:
            return None
        else:
            targets.append(word)
    line = _CommandLine(tuple(targets), values[_TAG], values[_TOOL])
    return line if line.targets or line.tag else None
