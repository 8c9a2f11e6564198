"""``opm bundle validate``: validate bundles."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from typing import TYPE_CHECKING

import typer

from opmkit.cli.flags.container_tools import PULL_TOOL_HELP, is_tool
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.scale import ExecutorFlags, ShardOption
from opmkit.cli.flags.validation import (
    COMMAND,
    ReportFlags,
    RuleFlags,
    TagFlags,
    validation_options,
)
from opmkit.cli.help.panels import COMPATIBILITY_PANEL
from opmkit.cli.hints import format_hint
from opmkit.cli.output.console import print_line, print_table
from opmkit.cli.output.errors import UsageError, conflicting_flags, print_warning
from opmkit.cli.output.logs import configure_logs
from opmkit.cli.output.streams import printing_result
from opmkit.cli.output.validation import OF_ONE_BUNDLE, OPERATOR_SDK, ReportFormat, print_operator_sdk_log, print_report
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.parser.go_commands import runs_as_operator_sdk
from opmkit.cli.progress.command import progress

if TYPE_CHECKING:
    from collections.abc import Sequence


def validate(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    rule_flags: RuleFlags,
    tag_flags: TagFlags,
    report_flags: ReportFlags,
    executor_flags: ExecutorFlags,
    targets: list[str] | None = argument(
        None,
        "Bundle or operator directories, images, REGISTRY/REPO for all tags, or @FILE for a list of targets",
        metavar="[TARGET]...",
    ),
    tag: str = flag(
        "", "One image to validate exactly as Go opm does", "-t", panel=COMPATIBILITY_PANEL, metavar="IMAGE"
    ),
    image_builder: str = flag(
        "none", PULL_TOOL_HELP, "--image-builder", "--container-tool", "-b", panel=COMPATIBILITY_PANEL, metavar="TOOL"
    ),
    shard: ShardOption = "",
    verbose: bool = flag(False, ""),
) -> None:
    """Validate bundles and report each finding with file, line and a hint

    The exit code is 1 if there is an error (with --fail-on warning: or a warning), or a bundle cannot be read.

    With --tag, the rules and the last line on stderr are those of Go opm, including its defects.

    [bold]Examples:[/]
      opm bundle validate deploy/0.1.0 deploy/0.2.0
      opm bundle validate quay.io/me/lagoon:0.1.0 --select-optional name=good-practices
      opm bundle validate ./bundle --profile operator-sdk --select-optional suite=operatorframework
      opm bundle validate operators/lagoon --profile community
      opm bundle validate deploy/0.2.0 --from deploy/0.1.0 --olm v1
      opm bundle validate quay.io/me/lagoon --tags 'v1.*' --output json --fail-on warning
      opm bundle validate @references.txt --shard 2/10 --output json > shard-2.json
      opm bundle validate @references.txt --executor dask://scheduler:8786
      opm bundle validate --tag quay.io/me/lagoon:0.1.0 --image-builder none
    """
    if verbose:
        configure_logs(debug=True)
    if rule_flags.list_optional:
        _print_optional_validators(rule_flags)
        return
    names = [*(targets or ()), *([tag] if tag else [])]
    if runs_as_operator_sdk(ctx):
        _check_like_operator_sdk(ctx, names, report_flags, image_builder)
    report_format = report_flags.report_format(ctx.command_path)
    _check_count(names, report_format, ctx.command_path)
    _check_shard(shard, report_format, tag=tag, writes_baseline=report_flags.write_baseline is not None)
    profile = OPERATOR_SDK if runs_as_operator_sdk(ctx) else ""
    options = validation_options(rule_flags, tag_flags, report_flags, "opm" if tag else profile, shard)
    if report_format is ReportFormat.PREFLIGHT and options.profile_name != ReportFormat.PREFLIGHT:
        raise UsageError("--output preflight requires --profile preflight", COMMAND)
    executor = executor_flags.parse(registry_flags)
    if executor and (options.external or image_builder != "none"):
        flag = "--alpha-select-external" if options.external else "--image-builder"
        raise conflicting_flags("--executor", flag, COMMAND)
    opm = registry_flags.opm(image_builder)
    with progress() as bars:
        report = opm.validate_bundles(names, options, executor=executor, progress=bars).with_hints(format_hint)
    _check_count(report or names, report_format, ctx.command_path)
    for directory in report.without_annotations:
        print_warning(f"{directory}: annotations were not checked: pass the directory with manifests/ and metadata/")
    if path := report_flags.write_baseline:
        count = report.write_baseline(path)
        with printing_result(f"{path}: baseline written"):
            print_line(f"{path}: {count} findings written")
        return
    if profile and report_format is ReportFormat.TEXT and not shard:
        print_operator_sdk_log(report)
    else:
        with redirect_stdout(sys.stderr) if _prints_like_go(tag, report_flags, report_format) else nullcontext():
            print_report(report, report_format, image_builder if tag else None)
    if not report.passed:
        ctx.exit(1)


def _prints_like_go(tag: str, report_flags: ReportFlags, report_format: ReportFormat) -> bool:
    """Return whether the report must not be on stdout, where Go opm prints none, unless a person or --output asks."""
    return bool(tag) and report_format is ReportFormat.TEXT and not report_flags.output and not sys.stdout.isatty()


def _check_shard(shard: str, report_format: ReportFormat, *, tag: str, writes_baseline: bool) -> None:
    """Raise UsageError for flags that exclude --shard."""
    if shard and report_format in OF_ONE_BUNDLE:
        raise UsageError(f"{report_format}: unsupported with --shard", COMMAND)
    if shard and (tag or writes_baseline):
        raise conflicting_flags("--shard", "--tag" if tag else "--write-baseline", COMMAND)


def _print_optional_validators(rule_flags: RuleFlags) -> None:
    from opmkit import Compat, ValidationOptions

    compat = rule_flags.compat_mode() or Compat.OPMKIT
    rows = [
        (validator.name, validator.labels(compat).get("suite", ""), validator.summary)
        for validator in ValidationOptions(compat=compat).available_validators()
    ]
    print_table(("NAME", "SUITE", "SUMMARY"), rows)


def _check_like_operator_sdk(
    ctx: typer.Context, names: Sequence[str], report_flags: ReportFlags, image_builder: str
) -> None:
    """Raise UsageError for several bundles, a value of ``-o`` that is no format, and an unknown tool."""
    if len(names) > 1:
        raise UsageError("several bundles: unsupported by operator-sdk", ctx.command_path)
    if report_flags.optional_validators and not report_flags.output:
        ReportFlags(output=report_flags.optional_validators).report_format(ctx.command_path)
    if not is_tool(image_builder):
        raise UsageError(f'unrecognized image-builder option: "{image_builder}"', ctx.command_path)


def _check_count(bundles: Sequence[object], report_format: ReportFormat, command: str) -> None:
    """Raise UsageError if there is no bundle, or the format is for a single one."""
    if not bundles:
        raise UsageError("no bundle to validate", command)
    if report_format in OF_ONE_BUNDLE and len(bundles) > 1:
        raise UsageError(f"{report_format}: unsupported for several bundles", command)
