"""Flags and reports of ``opm validate``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.output.console import format_count, print_bytes, print_json, print_line, print_text, print_yaml
from opmkit.cli.output.errors import UsageError, print_hint, print_to_stderr, print_warning
from opmkit.cli.output.fbc import parse_openshift_version
from opmkit.cli.policy_file import (
    REPORT_PANEL,
    ConfigOption,
    FailOnOption,
    IgnoreOption,
    find_policy_file,
    load_policy,
    parse_fail_on,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from opmkit import CatalogResult, Finding, IndexSource, Severity
    from opmkit.bundle.policy import CatalogSettings, Policy
    from opmkit.index.fbc.check.policy import CatalogPolicy

COMMAND = "opm validate"
MAX_PLACES = 9
"""Further places of a finding that are printed."""
REQUIREMENTS_PANEL = "Requirements"


class CatalogReportFormat(StrEnum):
    """Formats of a report."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    MARKDOWN = "markdown"


@dataclass(frozen=True, slots=True)
class RequirementFlags:
    """Flags for requirements on a catalog in addition to its validity."""

    openshift_version: Annotated[
        str,
        typer.Option(
            metavar="VERSION",
            help="OpenShift version that serves the catalog, such as 4.17",
            rich_help_panel=REQUIREMENTS_PANEL,
        ),
    ] = ""
    require_digests: Annotated[
        bool,
        typer.Option(
            "--require-digests", help="Require a digest in the bundle images", rich_help_panel=REQUIREMENTS_PANEL
        ),
    ] = False
    allowed_registries: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX,...",
            help="Allowed registries, or prefixes, of bundle images; default: any",
            rich_help_panel=REQUIREMENTS_PANEL,
        ),
    ] = None
    related_images: Annotated[
        bool,
        typer.Option(
            "--related-images",
            help="Apply both to related images as well",
            rich_help_panel=REQUIREMENTS_PANEL,
        ),
    ] = False
    against: Annotated[
        str,
        typer.Option(
            metavar="INDEX",
            help="Published index, whose packages, channels, heads, bundles and upgrade paths must remain",
            rich_help_panel=REQUIREMENTS_PANEL,
        ),
    ] = ""
    fragment: Annotated[
        bool,
        typer.Option(
            "--fragment",
            help="The catalog is a part of the published index: ignore its other packages",
            rich_help_panel=REQUIREMENTS_PANEL,
        ),
    ] = False

    require_signature: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Public key that must have signed the bundle images, or a policy.json with keys by name",
            rich_help_panel=REQUIREMENTS_PANEL,
        ),
    ] = ""

    def with_defaults(self, settings: CatalogSettings) -> RequirementFlags:
        """Return the flags, with the settings of a policy file for those that are not given."""
        flags = RequirementFlags(
            self.openshift_version or settings.openshift_version or "",
            self.require_digests or bool(settings.require_digests),
            list(filter(None, self.allowed_registries or settings.allowed_registries or ())),
            self.related_images or bool(settings.related_images),
            self.against or settings.against or "",
            self.fragment or bool(settings.fragment),
            self.require_signature or settings.require_signature or "",
        )
        if self.fragment and not flags.against:
            raise UsageError("--fragment requires --against", COMMAND)
        return flags

    def policy(self) -> CatalogPolicy:
        """Return the requirements, without the published index; raises UsageError."""
        from opmkit.index.fbc.check.policy import CatalogPolicy

        version = parse_openshift_version(self.openshift_version, COMMAND) if self.openshift_version else None
        return CatalogPolicy(version, self.require_digests, tuple(self.allowed_registries or ()), self.related_images)


@dataclass(frozen=True, slots=True)
class CatalogReportFlags:
    """Flags for the report, and for the findings that make the command fail."""

    output: Annotated[
        CatalogReportFormat,
        typer.Option(
            "--output",
            "-o",
            metavar="FORMAT",
            help="Output format: text, json, yaml, sarif, junit, github or markdown",
            rich_help_panel=REPORT_PANEL,
        ),
    ] = CatalogReportFormat.TEXT
    fail_on: FailOnOption = ""
    ignore: IgnoreOption = None
    config: ConfigOption = None

    def policy(self) -> Policy:
        """Return the policy; raises UsageError, InvalidPolicy and DiskError."""
        return load_policy(find_policy_file(self.config), self.ignore or (), COMMAND)

    def severity(self, policy: Policy) -> Severity:
        """Return the lowest severity that makes the command fail; raises UsageError."""
        return parse_fail_on(self.fail_on, policy, COMMAND)


def apply_policy(policy: Policy, result: CatalogResult, rules: Collection[str]) -> CatalogResult:
    """Return the result without the findings that the policy allows, and with its entries that allow nothing.

    Args:
        policy: The policy.
        result: A result.
        rules: The ids of the rules that were applied.
    """
    unused = tuple(
        f"{ignore.location}: the policy allows nothing: no finding matches {ignore}"
        for ignore in policy.unused(result, rules)
    )
    return replace(policy.apply(result), notices=(*result.notices, *unused))


def print_catalog_report(
    result: CatalogResult, source: IndexSource, form: CatalogReportFormat, fail_on: Severity
) -> None:
    """Print the result in a format."""
    match form:
        case CatalogReportFormat.TEXT:
            _print_findings(result)
        case CatalogReportFormat.JSON:
            print_json(result.to_dict(fail_on))
            return
        case CatalogReportFormat.YAML:
            print_yaml([result.to_dict(fail_on)])
            return
        case CatalogReportFormat.SARIF:
            from opmkit.bundle.reports import sarif
            from opmkit.index.fbc.check.policy import CATALOG_RULES

            roots = {result.target: sarif.target_uri(result.target, source.location)}
            print_json(sarif.report([result], CATALOG_RULES, roots))
        case CatalogReportFormat.JUNIT:
            from opmkit.bundle.reports import junit

            print_bytes([junit.report([result], fail_on, name="catalog validation").encode()])
        case CatalogReportFormat.GITHUB:
            from opmkit.bundle.reports import github

            for line in github.lines([result]):
                print_line(line)
        case CatalogReportFormat.MARKDOWN:
            from opmkit.bundle.reports import markdown

            print_text(markdown.report([result], fail_on, noun="catalog"))
    if not result.passes(fail_on):
        _print_failure(result, fail_on)


def _print_findings(result: CatalogResult) -> None:
    """Print findings to stderr as ``FILE:LINE: SEVERITY: MESSAGE [RULE]``; one message about several places once."""
    from opmkit.index.fbc.findings import group_findings

    directory = f"{result.target.rstrip('/')}/" if Path(result.target).is_dir() else ""
    for first, *others in group_findings(result.findings):
        location = f"{directory}{first.location}: " if first.file else ""
        print_to_stderr(f"{location}{first.severity}: {first.text} [{first.rule}]")
        print_hint(first.hint)
        _print_others(first, others, directory)
    for allowed in result.allowed:
        location = f"{directory}{allowed.finding.location}: " if allowed.finding.file else ""
        print_to_stderr(f"{location}allowed: {allowed.finding.text} [{allowed.finding.rule}]")
        print_to_stderr(f"  reason: {allowed.reason}")
    for notice in result.notices:
        print_warning(notice)


def _print_others(first: Finding, others: Sequence[Finding], directory: str) -> None:
    """Print the places of other findings like the first, which name the package already."""
    if others:
        print_to_stderr(f"  and in {format_count(len(others), 'other place')}:")
    for finding in others[:MAX_PLACES]:
        location = f"{directory}{finding.location}" if finding.file else ""
        subject = finding.subject.removeprefix(f"{first.subject.partition(', ')[0]}, ")
        print_to_stderr(f"    {': '.join(filter(None, (location, subject)))}")
    if len(others) > MAX_PLACES:
        print_to_stderr(f"    and {len(others) - MAX_PLACES} more, which --output json lists")


def _print_failure(result: CatalogResult, fail_on: Severity) -> None:
    """Print the first finding that makes the command fail, and the totals, as the ``Error:`` line to stderr."""
    from opmkit import Severity

    failures = [str(finding) for finding in result.findings if finding.fails(fail_on)]
    counts = [format_count(result.count(severity), severity.value) for severity in Severity]
    counts += [f"{len(result.allowed)} allowed"] if result.allowed else []
    first = [*failures, *result.notices][0]
    print_to_stderr(f"Error: {result.target}: invalid catalog: {first} ({', '.join(counts)})")
