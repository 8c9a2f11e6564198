"""Validation of bundles by ``opm bundle validate``.

The common forms of the command run without importing the parser of flags, which takes as long as the validation: those
with bundles only, and that of pipelines which name one image as Go opm does.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.cli.hints import format_hint, set_command_flags
from opmkit.cli.output.logs import configure_logs
from opmkit.cli.output.validation import ReportFormat, print_report
from opmkit.cli.progress.command import progress, transfer_observer
from opmkit.core import interrupts
from opmkit.core.workers import GC_THRESHOLD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit import ValidationOptions, ValidationReport, WorkerExecutor
    from opmkit.api.bundles import BundleOperations

POLICY_FILE = ".opm-validate.yaml"
"""Name of the policy file in the working directory."""
_TAG = ("--tag", "-t")
_TOOL = ("--image-builder", "--container-tool", "-b")


def validate_bundles(
    opm: BundleOperations, names: Sequence[str], options: ValidationOptions, executor: WorkerExecutor | None = None
) -> ValidationReport:
    """Validate bundles and show the progress."""
    gc.set_threshold(GC_THRESHOLD)
    with progress() as bars:
        return opm.validate_bundles(names, options, executor=executor, progress=bars)


def run(arguments: list[str]) -> int:
    """Run a command line that begins with ``bundle validate`` or ``alpha bundle validate``; return its exit code."""
    line = _parse(arguments[arguments.index("validate") + 1 :])
    if line is None or Path(POLICY_FILE).is_file():
        from opmkit.cli.main import run as run_any

        return run_any(arguments)
    configure_logs(debug=False)
    interrupts.begin_command()
    report = _validate(line)
    print_report(report, ReportFormat.TEXT, line.tool if line.tag else None)
    return 0 if report.passed else 1


class _CommandLine(Struct, frozen=True):
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


def _validate(line: _CommandLine) -> ValidationReport:
    from opmkit import RegistryOptions, ValidationOptions
    from opmkit.api.bundles import BundleOperations  # a part of Opm: importing all parts takes longer

    options = ValidationOptions(profile="", program="opm" if line.tag else "", use_cache=True)
    opm = BundleOperations(RegistryOptions(transfers=transfer_observer()), None, line.tool)
    names = [*line.targets, *([line.tag] if line.tag else [])]
    try:
        report = validate_bundles(opm, names, options)
    except Exception:
        _set_flags()
        raise
    if any(result.error for result in report):
        _set_flags()
    return report.with_hints(format_hint)


def _set_flags() -> None:
    """Let hints name the flags of the command."""
    from typer import Context

    from opmkit.cli.main import build_app
    from opmkit.cli.parser.go_commands import visible_flags

    command = build_app(load_all=False).get_command(None, "bundle").get_command(None, "validate")
    set_command_flags(visible_flags(command.get_params(Context(command))))
