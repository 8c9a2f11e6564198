"""``opm bundle validate``: validate bundles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.container_tools import PULL_TOOL_HELP
from opmkit.cli.flags.executors import ExecutorFlags
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.scale import ShardOption
from opmkit.cli.flags.validation import COMMAND, ReportFlags, ReportFormat, RuleFlags, TagFlags
from opmkit.cli.help.panels import COMPATIBILITY_PANEL
from opmkit.cli.output.console import print_line, print_table
from opmkit.cli.output.errors import UsageError, conflicting_flags
from opmkit.cli.output.logs import configure_logs
from opmkit.cli.output.streams import printing_result
from opmkit.cli.output.validation import OPERATOR_SDK, print_operator_sdk_log, print_results
from opmkit.cli.parser.go_commands import runs_as_operator_sdk
from opmkit.cli.validation_plan import ValidationPlan, parse_compat
from opmkit.cli.validation_run import ValidationRun, combine_results
from opmkit.core.lazy import call_once
from opmkit.core.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opmkit import ValidationResult
    from opmkit.bundle.validation.compat import Compat
    from opmkit.bundle.validation.shard_report import ReportSettings
    from opmkit.bundle.validation.sources import SkippedTags, Source
    from opmkit.imagetools.tools.registry import RegistryTool


def validate(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    rule_flags: RuleFlags,
    tag_flags: TagFlags,
    report_flags: ReportFlags,
    executor_flags: ExecutorFlags,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...",
            help="Bundle or operator directories, images, REGISTRY/REPO for all tags, or @FILE for a list of targets",
        ),
    ] = None,
    tag: Annotated[
        str,
        typer.Option(
            "--tag",
            "-t",
            metavar="IMAGE",
            help="One image to validate exactly as Go opm does",
            rich_help_panel=COMPATIBILITY_PANEL,
        ),
    ] = "",
    image_builder: Annotated[
        str,
        typer.Option(
            "--image-builder",
            "--container-tool",
            "-b",
            metavar="TOOL",
            help=PULL_TOOL_HELP,
            rich_help_panel=COMPATIBILITY_PANEL,
        ),
    ] = "none",
    shard: ShardOption = "",
    verbose: Annotated[bool, typer.Option("--verbose", hidden=True)] = False,
) -> None:
    """Validate bundles and report each finding with file, line and a hint

    The exit code is 1 if there is an error (with --fail-on warning: or a warning), or a bundle cannot be read.

    With --tag, the rules and the last line on stderr are those of Go opm, including its defects.

    [bold]Examples:[/]

      opm bundle validate deploy/0.1.0 deploy/0.2.0

      opm bundle validate quay.io/me/lagoon:0.1.0 --select-optional name=good-practices

      opm bundle validate ./bundle --profile operator-sdk --select-optional suite=operatorframework

      opm bundle validate operators/lagoon --profile community

      opm bundle validate quay.io/me/lagoon --tags 'v1.*' --output json --fail-on warning

      opm bundle validate @references.txt --shard 2/10 --output json > shard-2.json

      opm bundle validate @references.txt --executor dask://scheduler:8786

      opm bundle validate --tag quay.io/me/lagoon:0.1.0 --image-builder none
    """
    if verbose:
        configure_logs(debug=True)
    if rule_flags.list_optional:
        _print_optional_validators(parse_compat(rule_flags.compat))
        return
    names = [*(targets or ()), *([tag] if tag else [])]
    report_format = report_flags.report_format()
    _check_count(names, report_format)
    _check_shard(shard, report_format, tag=tag, writes_baseline=report_flags.write_baseline is not None)
    profile = OPERATOR_SDK if runs_as_operator_sdk(ctx) else ""
    plan = ValidationPlan.from_flags(rule_flags, report_flags, "opm" if tag else profile)
    executor = executor_flags.parse(registry_flags)
    if executor and (plan.external or image_builder != "none"):
        raise conflicting_flags(
            "--executor", "--alpha-select-external" if plan.external else "--image-builder", COMMAND
        )
    registry = call_once(registry_flags.tool)
    selection = _select(names, registry, tag_flags)
    _check_count(selection.sources or names, report_format)
    part = _Part(Shard.parse(shard), selection) if shard else None
    sources = part.sources if part else selection.sources
    tool = call_once(lambda: registry_flags.tool_named(image_builder))
    raw = ValidationRun(tool, registry, plan, not report_flags.no_cache, executor).results(sources)
    if part:
        passed = part.print(raw, report_format, plan.report_settings())
    else:
        results = combine_results(raw, sources, plan.report_settings())
        if report_flags.write_baseline:
            _write_baseline(report_flags.write_baseline, results)
            return
        if profile and report_format is ReportFormat.TEXT:
            passed = print_operator_sdk_log(results, plan.report_settings())
        else:
            passed = print_results(
                *(results, report_format, plan.report_settings(), sources, selection.skipped),
                image_builder if tag else None,
            )
    if not passed:
        ctx.exit(1)


def _check_shard(shard: str, report_format: ReportFormat, *, tag: str, writes_baseline: bool) -> None:
    """Raise UsageError for flags that exclude --shard."""
    if shard and report_format is ReportFormat.JSON_ALPHA1:
        raise UsageError("json-alpha1: unsupported with --shard", COMMAND)
    if shard and (tag or writes_baseline):
        raise conflicting_flags("--shard", "--tag" if tag else "--write-baseline", COMMAND)


def _print_optional_validators(compat: Compat) -> None:
    from opmkit.bundle.validation.optional_validators import available_validators

    rows = [
        (validator.name, validator.labels(compat).get("suite", ""), validator.summary)
        for validator in available_validators(compat)
    ]
    print_table(("NAME", "SUITE", "SUMMARY"), rows)


def _check_count(bundles: Sequence[object], report_format: ReportFormat) -> None:
    """Raise UsageError if there is no bundle, or the format is for a single one."""
    if not bundles:
        raise UsageError("no bundle to validate", COMMAND)
    if report_format is ReportFormat.JSON_ALPHA1 and len(bundles) > 1:
        raise UsageError("json-alpha1: unsupported for several bundles", COMMAND)


def _write_baseline(path: Path, results: Sequence[ValidationResult]) -> None:
    from opmkit.bundle.validation.baseline import encode_baseline
    from opmkit.core.files import disk_errors

    with disk_errors(path):
        path.write_bytes(encode_baseline(results))
    count = sum(len(result.findings) for result in results)
    with printing_result(f"{path}: baseline written"):
        print_line(f"{path}: {count} findings written")


@dataclass(frozen=True, slots=True)
class _Selection:
    """The bundles to validate, and the counts of skipped tags."""

    sources: tuple[Source, ...]
    skipped: SkippedTags


@dataclass(frozen=True, slots=True)
class _Part:
    """The bundles of one shard."""

    shard: Shard
    selection: _Selection

    @property
    def sources(self) -> list[Source]:
        """The bundles of the shard, in their order."""
        return [source for source in self.selection.sources if self.shard.contains(source.target)]

    def print(self, results: Sequence[ValidationResult], report_format: ReportFormat, settings: ReportSettings) -> bool:
        """Print the report of the shard with the data for a merge, and return whether its bundles passed."""
        from opmkit.bundle.validation.shard_report import PlacedResult, Selection, ShardReport
        from opmkit.cli.validation_run import apply_settings

        skipped = self.selection.skipped
        everything = enumerate(self.selection.sources)
        placed = [(number, source) for number, source in everything if self.shard.contains(source.target)]
        report = ShardReport(
            self.shard,
            Selection.from_sources(self.selection.sources, skipped),
            settings,
            tuple(PlacedResult(*place, result) for place, result in zip(placed, results, strict=True)),
        )
        applied = apply_settings(results, settings)
        return print_results(applied, report_format, settings, self.sources, skipped, shard=report.encode())


def _select(names: Sequence[str], registry: Callable[[], RegistryTool], tag_flags: TagFlags) -> _Selection:
    """Return the bundles that the targets name; raises NoMatchingTag and the errors of ``expand_targets``."""
    from opmkit.bundle.validation.sources import TagSelector, expand_targets

    selector = TagSelector(
        lambda repository: registry().tags(repository), tag_flags.tags or (), tag_flags.exclude_tags or ()
    )
    sources = tuple(expand_targets(names, selector))
    selector.check_patterns()
    return _Selection(sources, selector.skipped)
