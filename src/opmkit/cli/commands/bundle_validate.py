"""``opm bundle validate``: validate bundles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.console import print_line, print_table, progress
from opmkit.cli.container_tools import PULL_TOOL_HELP
from opmkit.cli.errors import UsageError
from opmkit.cli.help_flags import COMPATIBILITY_PANEL
from opmkit.cli.hints import format_hint
from opmkit.cli.lazy import call_once
from opmkit.cli.logs import configure_logs
from opmkit.cli.registry_flags import RegistryFlags
from opmkit.cli.streams import printing_result
from opmkit.cli.validation_flags import COMMAND, ReportFlags, ReportFormat, RuleFlags, TagFlags
from opmkit.cli.validation_plan import ValidationPlan, parse_compat
from opmkit.cli.validation_report import (
    print_first_failure,
    print_go_result,
    print_operator_sdk_success,
    print_report,
)
from opmkit.imagetools.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opmkit.bundle.validation.cache import ValidationCache
    from opmkit.bundle.validation.compat import Compat
    from opmkit.bundle.validation.platforms import ImagePlatforms
    from opmkit.bundle.validation.result import ValidationResult
    from opmkit.bundle.validation.sources import Source
    from opmkit.bundle.validation.tags import SkippedTags
    from opmkit.imagetools.tools import ContainerTool
    from opmkit.imagetools.tools.registry import RegistryTool

OPERATOR_SDK = "operator-sdk"
"""The profile with the rules of operator-sdk."""


def validate(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    rule_flags: RuleFlags,
    tag_flags: TagFlags,
    report_flags: ReportFlags,
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
    plan = ValidationPlan.from_flags(rule_flags, report_flags, as_opm=bool(tag))
    registry = call_once(registry_flags.tool)
    selection = _select(names, registry, tag_flags)
    _check_count(selection.sources or names, report_format)
    tool = call_once(lambda: registry_flags.tool_named(image_builder))
    results = _validate(tool, registry, selection.sources, plan, use_cache=not report_flags.no_cache)
    if report_flags.write_baseline:
        _write_baseline(report_flags.write_baseline, results)
        return
    print_report(results, report_format, plan.fail_on, selection.sources, selection.skipped)
    failed = [result for result in results if not result.passes(plan.fail_on)]
    if tag:
        print_go_result(results[-1], image_builder, plan.fail_on)
    elif failed:
        print_first_failure(failed[0], plan.fail_on)
    elif plan.profile.name == OPERATOR_SDK:
        print_operator_sdk_success()
    if failed:
        ctx.exit(1)


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
    from opmkit.imagetools.store.disk import disk_errors

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


def _select(names: Sequence[str], registry: Callable[[], RegistryTool], tag_flags: TagFlags) -> _Selection:
    """Return the bundles that the targets name; raises NoMatchingTag and the errors of ``expand_targets``."""
    from opmkit.bundle.validation.sources import expand_targets
    from opmkit.bundle.validation.tags import TagSelector

    selector = TagSelector(
        lambda repository: registry().tags(repository), tag_flags.tags or (), tag_flags.exclude_tags or ()
    )
    sources = tuple(expand_targets(names, selector))
    selector.check_patterns()
    return _Selection(sources, selector.skipped)


def _validate(
    tool: Callable[[], ContainerTool],
    registry: Callable[[], RegistryTool],
    sources: Sequence[Source],
    plan: ValidationPlan,
    *,
    use_cache: bool,
) -> list[ValidationResult]:
    """Return the results in the order of ``sources``, without ignored and known findings."""
    from opmkit.bundle.validation.baseline import exclude_known
    from opmkit.bundle.validation.sources import read_files, read_labels
    from opmkit.bundle.validation.validator import (
        BundleValidator,
        add_cross_bundle_findings,
        cross_bundle_rules,
    )

    validation = BundleValidator(
        tool,
        plan.validator_config(lambda image: _find_platforms(registry(), image)),
        read=read_labels if plan.labels_only else read_files,
        cache=_open_cache(plan) if use_cache and plan.can_use_cache else None,
        external=plan.external,
    )
    with progress() as bars:
        results = list(validation.run(sources, progress=bars))
    if len(results) > 1:
        results = add_cross_bundle_findings(results, sources, cross_bundle_rules(plan.profile, plan.compat))
    results = [plan.policy.apply(_format_hint(result)) for result in results]
    return results if plan.known is None else [exclude_known(result, plan.known) for result in results]


def _format_hint(result: ValidationResult) -> ValidationResult:
    """Return the result with its hint in terms of the flags of this command."""
    return replace(result, hint=Hint(format_hint(result.hint))) if result.hint else result


def _find_platforms(tool: RegistryTool, image: str) -> ImagePlatforms | None:
    """Return the platforms of an image in its registry, None if it cannot be loaded."""
    from opmkit.bundle.validation.platforms import ImagePlatforms
    from opmkit.imagetools.errors import ImageToolsError
    from opmkit.imagetools.image import Image
    from opmkit.imagetools.reference import parse_image_reference

    try:
        loaded = tool.load(parse_image_reference(image))
    except ImageToolsError:
        return None
    if isinstance(loaded, Image):
        return ImagePlatforms((loaded.config.platform,), is_index=False)
    return ImagePlatforms(tuple(part.config.platform for part in loaded.images), is_index=True)


def _open_cache(plan: ValidationPlan) -> ValidationCache:
    from opmkit.bundle.validation.cache import ValidationCache
    from opmkit.imagetools.store.directory import cache_directory

    return ValidationCache.open(cache_directory("verdicts"), plan.cache_key())
