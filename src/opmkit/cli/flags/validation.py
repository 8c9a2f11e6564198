"""Flags of ``opm bundle validate``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.help.panels import COMPATIBILITY_PANEL
from opmkit.cli.output.errors import UsageError
from opmkit.cli.output.fbc import COMPAT_HELP
from opmkit.cli.policy_file import REPORT_PANEL, RULES_PANEL, ConfigOption, FailOnOption, IgnoreOption

COMMAND = "opm bundle validate"
OPTIONAL_PANEL = "Optional validators"
BASELINE_PANEL = "Baseline"


class ReportFormat(StrEnum):
    """Formats of a report."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    MARKDOWN = "markdown"
    JSON_ALPHA1 = "json-alpha1"


@dataclass(frozen=True, slots=True)
class RuleFlags:
    """Flags for the rules to run."""

    profile: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Rules to run: opm, operator-sdk, operatorhub, community, redhat, all or default",
            rich_help_panel=RULES_PANEL,
        ),
    ] = ""
    compat: Annotated[
        str,
        typer.Option(metavar="VERSION", help=COMPAT_HELP, rich_help_panel=COMPATIBILITY_PANEL),
    ] = ""
    select_optional: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SELECTOR",
            help="Label selector of additional optional validators, such as name=good-practices",
            rich_help_panel=OPTIONAL_PANEL,
        ),
    ] = None
    optional_values: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,...",
            help="Values for optional validators, such as k8s-version=1.25",
            rich_help_panel=OPTIONAL_PANEL,
        ),
    ] = None
    alpha_select_external: Annotated[
        str,
        typer.Option(
            "--alpha-select-external",
            metavar="PROGRAM[:PROGRAM]...",
            help="External validators to run with the bundle directory as argument",
            rich_help_panel=OPTIONAL_PANEL,
        ),
    ] = ""
    list_optional: Annotated[
        bool, typer.Option("--list-optional", help="List the optional validators", rich_help_panel=OPTIONAL_PANEL)
    ] = False
    ignore: IgnoreOption = None
    config: ConfigOption = None
    labels_only: Annotated[
        bool,
        typer.Option(
            "--labels-only",
            help="Validate only the labels of images, without pulling layers",
            rich_help_panel=RULES_PANEL,
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class TagFlags:
    """Flags for the tags of a repository to validate."""

    tags: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN,...",
            help="Glob patterns of tags of REGISTRY/REPO to validate; default: all except signatures and attestations",
        ),
    ] = None
    exclude_tags: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN,...", help="Glob patterns of tags of REGISTRY/REPO to skip"),
    ] = None


@dataclass(frozen=True, slots=True)
class ReportFlags:
    """Flags for the report, and for the findings that make the command fail."""

    optional_validators: Annotated[
        str,
        typer.Option(
            "--optional-validators",
            "-o",
            metavar="NAME,...",
            help="Optional validators as in Go opm: operatorhub, bundle-objects; also accepts the formats of --output",
            rich_help_panel=OPTIONAL_PANEL,
        ),
    ] = ""
    output: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help="Output format: text, json, sarif, junit, github, markdown or json-alpha1",
            rich_help_panel=REPORT_PANEL,
        ),
    ] = ""
    fail_on: FailOnOption = ""
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with known findings to ignore", rich_help_panel=BASELINE_PANEL),
    ] = None
    write_baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write all findings to a baseline and exit with code 0", rich_help_panel=BASELINE_PANEL
        ),
    ] = None
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", help="Do not use the cache of earlier results", rich_help_panel=BASELINE_PANEL),
    ] = False

    def report_format(self) -> ReportFormat:
        """Return the format of the report; raises UsageError if it is unknown."""
        formats = tuple(ReportFormat)
        name = self.output or (self.optional_validators if self.optional_validators in formats else "text")
        if name not in formats:
            raise UsageError(f"unknown format {name!r} of --output: one of {', '.join(formats)}", COMMAND)
        return ReportFormat(name)

    def validators(self) -> list[str]:
        """Return the names of the validators that ``-o`` adds; raises UsageError if one is unknown."""
        known = {"operatorhub": "operatorhub", "bundle-objects": "object"}
        names = [] if self.optional_validators in tuple(ReportFormat) else self.optional_validators.split(",")
        unknown = [name for name in names if name and name not in known]
        if unknown:
            raise UsageError(f"unknown optional validator {unknown[0]!r}: one of {', '.join(known)}", COMMAND)
        return [known[name] for name in names if name]
