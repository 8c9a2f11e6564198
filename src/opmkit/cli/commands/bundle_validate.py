"""``opm bundle validate`` and ``opm bundle rules``."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.console import (
    Output,
    OutputFormat,
    print_bytes,
    print_json,
    print_line,
    print_table,
    print_text,
    progress,
)
from opmkit.cli.errors import UsageProblem, print_error, print_to_stderr
from opmkit.cli.hints import format_hint
from opmkit.cli.registry_flags import Connection, made_once
from opmkit.cli.streams import report_on
from opmkit.imagetools.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from opmkit.bundle.finding import Severity
    from opmkit.bundle.validation.baseline import Baseline
    from opmkit.bundle.validation.bundle_view import Options
    from opmkit.bundle.validation.cache import ValidationCache
    from opmkit.bundle.validation.compat import Compat
    from opmkit.bundle.validation.parallel_validator import ValidatorConfig
    from opmkit.bundle.validation.platforms import ImagePlatforms, Inspect
    from opmkit.bundle.validation.policy import Policy
    from opmkit.bundle.validation.profiles import Profile
    from opmkit.bundle.validation.result import ValidationResult
    from opmkit.bundle.validation.rule import Rule
    from opmkit.bundle.validation.sources import Source
    from opmkit.bundle.validation.tags import SkippedTags
    from opmkit.imagetools.tools import ContainerTool
    from opmkit.imagetools.tools.registry import RegistryTool

COMMAND = "opm bundle validate"
MULTIARCH = "multiarch"
RULES_PANEL = "Rules"
REPORT_PANEL = "Report"


class Report(StrEnum):
    """The forms of a report."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    JSON_ALPHA1 = "json-alpha1"


@dataclass(frozen=True, slots=True)
class Rules:
    """Which rules run, and what they are told."""

    profile: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Rules to run: opm, operator-sdk, operatorhub, community or all (the default).",
            rich_help_panel=RULES_PANEL,
        ),
    ] = ""
    compat: Annotated[
        str,
        typer.Option(
            metavar="VERSION",
            help="Judge as a reference does, with its defects: opm-1.26 or newest.",
            rich_help_panel=RULES_PANEL,
        ),
    ] = ""
    select_optional: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SELECTOR",
            help="Optional validators to add, by a label selector such as name=good-practices.",
            rich_help_panel=RULES_PANEL,
        ),
    ] = None
    optional_values: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,...",
            help="What optional validators are told, such as k8s-version=1.25.",
            rich_help_panel=RULES_PANEL,
        ),
    ] = None
    list_optional: Annotated[
        bool, typer.Option("--list-optional", help="List the optional validators.", rich_help_panel=RULES_PANEL)
    ] = False
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE,...", help="Rules to pass over.", rich_help_panel=RULES_PANEL),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Severities, ignores with reasons, baseline. Default: .opm-validate.yaml, if it is there.",
            rich_help_panel=RULES_PANEL,
        ),
    ] = None
    labels_only: Annotated[
        bool,
        typer.Option(
            "--labels-only",
            help="Look at the labels of images alone: a few kilobytes each.",
            rich_help_panel=RULES_PANEL,
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class TagPatterns:
    """Which tags of a repository are validated."""

    tags: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN,...",
            help="Tags of REGISTRY/REPO to validate, as globs. Default: all but those of signatures and attestations.",
        ),
    ] = None
    exclude_tags: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN,...", help="Tags of REGISTRY/REPO to skip, as globs."),
    ] = None


@dataclass(frozen=True, slots=True)
class Reporting:
    """How the findings are told, and which make the command fail."""

    optional_validators: Annotated[
        str,
        typer.Option(
            "--optional-validators",
            "-o",
            metavar="NAME,...",
            help="As in the Go tool: operatorhub, bundle-objects. A form of --output is understood, too.",
            rich_help_panel=REPORT_PANEL,
        ),
    ] = ""
    output: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help="Form of the report: text, json, sarif, junit, github or json-alpha1.",
            rich_help_panel=REPORT_PANEL,
        ),
    ] = ""
    fail_on: Annotated[
        str,
        typer.Option(
            metavar="SEVERITY",
            help="What makes the command fail: error (the default) or warning.",
            rich_help_panel=REPORT_PANEL,
        ),
    ] = ""
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Findings that are known: only others count.", rich_help_panel=REPORT_PANEL),
    ] = None
    write_baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write all findings as a baseline, and exit 0.", rich_help_panel=REPORT_PANEL
        ),
    ] = None
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", help="Judge again what was judged before.", rich_help_panel=REPORT_PANEL),
    ] = False

    def form(self) -> Report:
        """The form of the report; raises UsageProblem."""
        name = self.output or (self.optional_validators if self.optional_validators in tuple(Report) else "text")
        if name not in tuple(Report):
            raise UsageProblem(f"unknown form {name!r} of --output: one of {', '.join(Report)}", COMMAND)
        return Report(name)

    def validators(self) -> list[str]:
        """The validators that ``-o`` adds; raises UsageProblem."""
        known = {"operatorhub": "operatorhub", "bundle-objects": "object"}
        named = [] if self.optional_validators in tuple(Report) else self.optional_validators.split(",")
        wrong = [name for name in named if name and name not in known]
        if wrong:
            raise UsageProblem(f"unknown optional validator {wrong[0]!r}: one of {', '.join(known)}", COMMAND)
        return [known[name] for name in named if name]


def validate(
    ctx: typer.Context,
    connection: Connection,
    rules: Rules,
    patterns: TagPatterns,
    reporting: Reporting,
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]...", help="Bundle directories, images, REGISTRY/REPO for all tags, @FILE."),
    ] = None,
    tag: Annotated[
        str, typer.Option("--tag", "-t", metavar="IMAGE", help="One image, validated exactly as Go opm does")
    ] = "",
    image_builder: Annotated[
        str,
        typer.Option(
            "--image-builder",
            "--container-tool",
            "-b",
            metavar="TOOL",
            help="Tool that pulls images: none, docker, podman or buildah.",
        ),
    ] = "none",
) -> None:
    """Tell everything that is wrong with bundles, with file, line and remedy.

    Exits with 1 if an error was found (with --fail-on warning: or a warning), or a bundle could not be read.

    With --tag, the rules and the last line on stderr are those of Go opm, also where Go opm is wrong.

    [bold]Examples:[/]

      opm bundle validate deploy/0.1.0 deploy/0.2.0

      opm bundle validate quay.io/me/lagoon:0.1.0 --select-optional name=good-practices

      opm bundle validate quay.io/me/lagoon --tags 'v1.*' --output json --fail-on warning

      opm alpha bundle validate --tag quay.io/me/lagoon:0.1.0 --image-builder none
    """
    if rules.list_optional:
        _list_optional(_dialect(rules.compat))
        return
    named = [*(targets or ()), *([tag] if tag else [])]
    if not named:
        raise UsageProblem("no bundle is named", COMMAND)
    form = reporting.form()
    if form is Report.JSON_ALPHA1 and len(named) > 1:
        raise UsageProblem("json-alpha1 has room for one bundle", COMMAND)
    policy = _policy(rules, reporting)
    plan = _Plan.of(rules, reporting, policy, as_opm=bool(tag))
    registry = made_once(connection.tool)
    selection = _select(named, registry, patterns)
    tool = made_once(lambda: connection.tool_named(image_builder))
    verdicts = _verdicts(tool, registry, selection.sources, plan, reporting)
    if reporting.write_baseline:
        from opmkit.bundle.validation.baseline import encode_baseline
        from opmkit.imagetools.store.disk import disk_errors

        with disk_errors(reporting.write_baseline):
            reporting.write_baseline.write_bytes(encode_baseline(verdicts))
        count = sum(len(verdict.findings) for verdict in verdicts)
        with report_on(f"{reporting.write_baseline}: baseline written"):
            print_line(f"{reporting.write_baseline} knows {count} findings")
        return
    _tell(verdicts, form, plan.fail_on, selection)
    failed = [verdict for verdict in verdicts if not verdict.passes(plan.fail_on)]
    if tag:
        _log_result(verdicts[-1], image_builder, plan.fail_on)
    elif failed:
        _print_first_cause(failed[0], plan.fail_on)
    if failed:
        ctx.exit(1)


def _dialect(version: str) -> Compat:
    from opmkit.bundle.validation.compat import Compat

    choices = {"": Compat.OPMKIT} | {compat.value: compat for compat in Compat}
    if version not in choices:
        raise UsageProblem(f"unknown version {version!r} of --compat: opm-1.26 or newest", COMMAND)
    return choices[version]


def _list_optional(compat: Compat) -> None:
    from opmkit.bundle.validation.optional_validators import available_validators

    rows = [(one.name, one.labels(compat).get("suite", ""), one.summary) for one in available_validators(compat)]
    print_table(("NAME", "SUITE", "LOOKS AT"), rows)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What flags and policy come to."""

    profile: Profile
    compat: Compat
    optional: tuple[str, ...]
    options: Options
    policy: Policy
    fail_on: Severity
    labels_only: bool
    known: Baseline | None

    @classmethod
    def of(cls, rules: Rules, reporting: Reporting, policy: Policy, *, as_opm: bool) -> _Plan:
        """Read the flags that are texts, and the baseline.

        Raises UsageProblem, UnknownName, InvalidSelector, InvalidOption, InvalidPolicy and StoreError.
        """
        from opmkit.bundle.finding import Severity
        from opmkit.bundle.validation.baseline import read_baseline
        from opmkit.bundle.validation.optional_validators import CATEGORIES_VARIABLE, read_options, select_validators
        from opmkit.bundle.validation.profiles import profile_named

        profile = profile_named(rules.profile or policy.profile or ("opm" if as_opm else "all"))
        compat = _dialect(rules.compat or ("newest" if as_opm and profile.name == "opm" else ""))
        fail_on = reporting.fail_on or policy.fail_on or Severity.ERROR
        if fail_on not in tuple(Severity):
            raise UsageProblem(f"unknown severity {fail_on!r} of --fail-on: error or warning", COMMAND)
        chosen = [one.name for text in rules.select_optional or () for one in select_validators(text, compat)]
        values = [*(f"{key}={value}" for key, value in policy.optional_values), *(rules.optional_values or ())]
        return cls(
            profile,
            compat,
            tuple(dict.fromkeys([*policy.optional, *chosen, *reporting.validators()])),
            read_options(values, os.environ.get(CATEGORIES_VARIABLE, "")),
            policy,
            Severity(fail_on),
            rules.labels_only,
            read_baseline(Path(policy.baseline)) if policy.baseline and not reporting.write_baseline else None,
        )

    def judging(self, inspect: Inspect) -> ValidatorConfig:
        """How bundles are judged."""
        from opmkit.bundle.validation.parallel_validator import ValidatorConfig
        from opmkit.bundle.validation.run import ProfileValidator, validate_labels

        judge = validate_labels if self.labels_only else ProfileValidator(self.profile, self.optional)
        return ValidatorConfig(judge, self.compat, self.options, inspect if self.asks_registries else None)

    @property
    def asks_registries(self) -> bool:
        """Whether a rule asks for what a registry says today."""
        return MULTIARCH in self.optional

    def choices(self) -> tuple[str, ...]:
        """All that verdicts depend on beside the bundle."""
        labels = str(self.labels_only)
        return (self.profile.name, self.compat.value, labels, repr(self.options), *self.optional)


def _policy(rules: Rules, reporting: Reporting) -> Policy:
    """The policy of the file, with what the flags add."""
    from dataclasses import replace

    from opmkit.bundle.validation.policy import FILE_NAME, Ignore, Policy, read_policy

    path = rules.config or (Path(FILE_NAME) if Path(FILE_NAME).is_file() else None)
    policy = read_policy(path, _rule_ids()) if path else Policy()
    unknown = [rule for rule in rules.ignore or () if rule not in _rule_ids()]
    if unknown:
        raise UsageProblem(f"unknown rule {unknown[0]!r} of --ignore: 'opm bundle rules' lists them", COMMAND)
    ignores = tuple(Ignore(rule, "asked for on the command line") for rule in rules.ignore or ())
    if policy.baseline and path and not reporting.baseline:
        policy = replace(policy, baseline=str(path.parent / policy.baseline))
    return replace(
        policy,
        ignores=policy.ignores + ignores,
        baseline=str(reporting.baseline) if reporting.baseline else policy.baseline,
    )


def _rule_ids() -> Collection[str]:
    from opmkit.bundle.validation.rule_registry import rules

    return rules()


@dataclass(frozen=True, slots=True)
class _Selection:
    """The bundles to validate, and how many tags of repositories are skipped."""

    sources: tuple[Source, ...]
    skipped: SkippedTags


def _select(named: Sequence[str], registry: Callable[[], RegistryTool], patterns: TagPatterns) -> _Selection:
    """Return the bundles that the targets name; raises NoMatchingTag and what ``expand_targets`` raises."""
    from opmkit.bundle.validation.sources import expand_targets
    from opmkit.bundle.validation.tags import TagSelector

    selector = TagSelector(
        lambda repository: registry().tags(repository), patterns.tags or (), patterns.exclude_tags or ()
    )
    sources = tuple(expand_targets(named, selector))
    selector.check_patterns()
    return _Selection(sources, selector.skipped)


def _verdicts(
    tool: Callable[[], ContainerTool],
    registry: Callable[[], RegistryTool],
    sources: Sequence[Source],
    plan: _Plan,
    reporting: Reporting,
) -> list[ValidationResult]:
    """The verdicts that count, in the order of what was named."""
    from opmkit.bundle.validation.baseline import exclude_known
    from opmkit.bundle.validation.sources import read_files, read_labels
    from opmkit.bundle.validation.validator import BundleValidator, add_cross_bundle_findings

    validation = BundleValidator(
        tool,
        plan.judging(lambda image: _platforms(registry(), image)),
        read=read_labels if plan.labels_only else read_files,
        cache=None if reporting.no_cache or plan.asks_registries else _cache(plan),
    )
    with progress() as bars:
        verdicts = list(validation.run(sources, progress=bars))
    if plan.profile.all_validators and len(verdicts) > 1:
        from opmkit.bundle.validation.rule_registry import validators

        verdicts = add_cross_bundle_findings(verdicts, validators().get("across", ()))
    verdicts = [plan.policy.apply(_with_flags(verdict)) for verdict in verdicts]
    return verdicts if plan.known is None else [exclude_known(verdict, plan.known) for verdict in verdicts]


def _with_flags(verdict: ValidationResult) -> ValidationResult:
    """Return the result with its hint in terms of the flags of this command."""
    from dataclasses import replace

    return replace(verdict, hint=Hint(format_hint(verdict.hint))) if verdict.hint else verdict


def _platforms(tool: RegistryTool, image: str) -> ImagePlatforms | None:
    """What an image runs on, as its registry tells."""
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
    return ImagePlatforms(tuple(one.config.platform for one in loaded.images), is_index=True)


def _cache(plan: _Plan) -> ValidationCache:
    from opmkit.bundle.validation.cache import ValidationCache
    from opmkit.imagetools.store import ImageStore

    return ValidationCache.open(ImageStore.open().cache_directory("verdicts"), plan.choices())


def _tell(verdicts: Sequence[ValidationResult], form: Report, fail_on: Severity, selection: _Selection) -> None:
    """Print the report."""
    from opmkit.bundle.validation import reports

    skipped = selection.skipped
    if skipped.total and form not in (Report.TEXT, Report.JSON):  # these forms have no member for it
        print_to_stderr(f"skipped {skipped}")
    if form is Report.TEXT:
        _print_text(reports.text.lines(verdicts, skipped))
    elif form is Report.JSON:
        print_json(reports.json.report(verdicts, fail_on, skipped.total))
    elif form is Report.SARIF:
        from opmkit.bundle.validation.rule_registry import rules

        print_json(reports.sarif.report(verdicts, rules(), selection.sources))
    elif form is Report.JUNIT:
        print_bytes([reports.junit.report(verdicts, fail_on).encode()])
    elif form is Report.GITHUB:
        for line in reports.github.lines(verdicts):
            print_line(line)
    else:
        print_json(reports.json.json_alpha1(verdicts[0]))


def _log_result(verdict: ValidationResult, tool: str, fail_on: Severity) -> None:
    """Print the last line of Go opm's log to stderr: scripts that call it search for this line."""
    if verdict.passes(fail_on):
        from opmkit.cli.server_logs import format_record

        success = "All validation tests have been completed successfully"
        print_to_stderr(format_record("info", success, {"container-tool": tool}))
        return
    from opmkit.bundle.errors import InvalidBundle

    messages = [finding.message for finding in verdict.findings] or [verdict.error]
    more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
    print_error(InvalidBundle(f"Bundle validation errors: {messages[0]}{more}"))


def _print_first_cause(failed: ValidationResult, fail_on: Severity) -> None:
    """Print the first cause of a failure in the line that callers read, on stderr; the report has all of them."""
    from opmkit.bundle.errors import InvalidBundle

    message = failed.error.removeprefix(f"{failed.target}: ")
    if not message:
        first = next(finding for finding in failed.findings if finding.fails(fail_on))
        others = sum(finding.fails(fail_on) for finding in failed.findings) - 1
        place = f"{first.location}: " if first.file else ""
        message = f"invalid bundle: {place}{first.message}{f' (and {others} more)' if others else ''}"
    print_error(InvalidBundle(f"{failed.target}: {message}"))


def _print_text(lines: Iterable[tuple[str, str]]) -> None:
    """Print lines, coloured on a terminal."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        for line, _ in lines:
            print_line(line)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    for line, style in lines:
        console.print(Text(line, style=style))


def list_rules(
    rule: Annotated[str | None, typer.Argument(metavar="[RULE]", help="The rule to explain.")] = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """List the rules of validation, or explain one, with a bad and a good example.

    [bold]Examples:[/]

      opm bundle rules

      opm bundle rules CSV-REPLACES-FORMAT
    """
    from opmkit.bundle.validation.rule_registry import rules

    known = rules()
    if rule is not None and rule.upper() not in known:
        raise UsageProblem(f"unknown rule {rule!r}: 'opm bundle rules' lists them", "opm bundle rules")
    chosen = [known[rule.upper()]] if rule else [known[name] for name in sorted(known)]
    if output is OutputFormat.JSON:
        print_json([_described(one) for one in chosen])
    elif rule:
        _explain(chosen[0])
    else:
        rows = [(one.id, one.severity.value, one.validator, one.summary) for one in chosen]
        print_table(("RULE", "SEVERITY", "VALIDATOR", "FINDS"), rows)


def _described(rule: Rule) -> dict[str, str]:
    return {
        "id": rule.id,
        "validator": rule.validator,
        "severity": rule.severity.value,
        "summary": rule.summary,
        "explanation": rule.explanation,
        "remedy": rule.hint,
        "bad": rule.bad,
        "good": rule.good,
    }


def _explain(rule: Rule) -> None:
    from inspect import cleandoc

    print_text(f"{rule.id} ({rule.severity}, validator {rule.validator}): {rule.summary}\n")
    if rule.explanation:
        print_text(f"{cleandoc(rule.explanation)}\n")
    print_text(f"Remedy: {rule.hint}")
    for title, example in (("Bad", rule.bad), ("Good", rule.good)):
        if example:
            print_text(f"\n{title}:\n\n" + "\n".join(f"    {line}" for line in example.rstrip().splitlines()))
