"""The run of ``opm bundle validate``, with progress and hints that name the flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.cli.hints import format_hint, set_command_flags
from opmkit.cli.output.logs import configure_logs
from opmkit.cli.output.validation import ReportFormat, print_report
from opmkit.cli.progress.command import progress, transfer_observer
from opmkit.core import interrupts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit import ValidationOptions, ValidationReport, WorkerExecutor
    from opmkit.api.bundles import BundleOperations


def validate_bundles(
    opm: BundleOperations, names: Sequence[str], options: ValidationOptions, executor: WorkerExecutor | None = None
) -> ValidationReport:
    """Validate bundles and show the progress."""
    with progress() as bars:
        return opm.validate_bundles(names, options, executor=executor, progress=bars)


def validate_without_flags(targets: Sequence[str], tag: str, tool: str) -> ValidationReport:
    """Run the command without the parser of its flags, and print the report.

    Args:
        targets: The arguments.
        tag: The value of --tag, "" without.
        tool: The tool that reads images.
    """
    configure_logs(debug=False)
    interrupts.begin_command()
    report = _validate([*targets, *([tag] if tag else [])], "opm" if tag else "", tool)
    print_report(report, ReportFormat.TEXT, tool if tag else None)
    return report


def _validate(names: Sequence[str], program: str, tool: str) -> ValidationReport:
    from opmkit import RegistryOptions, ValidationOptions
    from opmkit.api.bundles import BundleOperations  # a part of Opm: importing all parts takes longer

    options = ValidationOptions(profile="", program=program, use_cache=True)
    opm = BundleOperations(RegistryOptions(transfers=transfer_observer()), None, tool)
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
