"""Flags of ``opm bundle validate``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from opmkit.cli.flags.policy import (
    REPORT_PANEL,
    RULES_PANEL,
    ConfigOption,
    FailOnOption,
    IgnoreOption,
    find_policy_file,
    load_policy,
    parse_fail_on,
)
from opmkit.cli.help.panels import COMPATIBILITY_PANEL
from opmkit.cli.output.errors import UsageError, print_warnings, similar_names
from opmkit.cli.output.fbc import COMPAT_HELP
from opmkit.cli.output.validation import ReportFormat
from opmkit.cli.parser.declaration import flag
from opmkit.core.shard import Shard

if TYPE_CHECKING:
    from opmkit import Compat, OlmVersion, ValidationOptions

COMMAND = "opm bundle validate"
OPTIONAL_PANEL = "Optional validators"
BASELINE_PANEL = "Baseline"
_GO_VALIDATORS = ("operatorhub", "bundle-objects")
"""Values of ``--optional-validators`` that Go opm knows."""


@dataclass(frozen=True, slots=True)
class RuleFlags:
    """Flags for the rules to run."""

    panel: ClassVar[str] = OPTIONAL_PANEL

    profile: str = flag(
        "",
        "Rules to run: opm, operator-sdk, operatorhub, community, redhat, preflight, olm-v1, all or default",
        panel=RULES_PANEL,
        metavar="NAME",
    )
    compat: str = flag("", COMPAT_HELP, panel=COMPATIBILITY_PANEL, metavar="VERSION")
    select_optional: list[str] | None = flag(
        None, "Label selector of additional optional validators, such as name=good-practices", metavar="SELECTOR"
    )
    optional_values: list[str] | None = flag(
        None, "Values for optional validators, such as k8s-version=1.25", metavar="KEY=VALUE,..."
    )
    alpha_select_external: str = flag(
        "", "External validators to run with the bundle directory as argument", metavar="PROGRAM[:PROGRAM]..."
    )
    from_bundle: str = flag(
        "",
        "Bundle that is replaced, to compare the CRDs",
        "--from",
        panel=RULES_PANEL,
        metavar="BUNDLE",
    )
    olm: str = flag(
        "both",
        "OLM of the clusters: v0, v1 or both",
        panel=RULES_PANEL,
        metavar="VERSION",
    )
    list_optional: bool = flag(False, "List the optional validators")
    ignore: IgnoreOption = None
    config: ConfigOption = None
    labels_only: bool = flag(False, "Validate only the labels of images, without pulling layers", panel=RULES_PANEL)

    def compat_mode(self) -> Compat | None:
        """Return the compatibility mode, None if the flag is not given; raises UsageError if it is unknown."""
        from opmkit import Compat
        from opmkit.index.fbc.compat import CatalogCompat

        if not self.compat:
            return None
        if self.compat == "opmkit":
            return Compat.OPMKIT
        release = CatalogCompat.parse(self.compat)
        modes = {CatalogCompat.OPM_1_26: Compat.OPM_1_26, CatalogCompat.NEWEST: Compat.NEWEST}
        if release not in modes:
            raise UsageError(f"--compat {self.compat}: unsupported for bundles: newest or 1.26", COMMAND)
        return modes[release]

    def olm_version(self) -> OlmVersion | None:
        """Return the OLM to validate for, None for both; raises UsageError if it is unknown."""
        from opmkit import OlmVersion

        if self.olm not in ("both", *OlmVersion):
            raise UsageError(f"unknown value {self.olm!r} of --olm: one of v0, v1, both", COMMAND)
        return None if self.olm == "both" else OlmVersion(self.olm)


@dataclass(frozen=True, slots=True)
class TagFlags:
    """Flags for the tags of a repository to validate."""

    tags: list[str] | None = flag(
        None,
        "Glob patterns of tags of REGISTRY/REPO to validate; default: all except signatures and attestations",
        metavar="PATTERN,...",
    )
    exclude_tags: list[str] | None = flag(None, "Glob patterns of tags of REGISTRY/REPO to skip", metavar="PATTERN,...")


@dataclass(frozen=True, slots=True)
class ReportFlags:
    """Flags for the report, and for the findings that make the command fail."""

    panel: ClassVar[str] = BASELINE_PANEL

    optional_validators: str = flag(
        "",
        "Optional validators as in Go opm: operatorhub, bundle-objects; also accepts the formats of --output",
        "-o",
        panel=OPTIONAL_PANEL,
        metavar="NAME,...",
    )
    output: str = flag(
        "",
        "Output format: text, json, sarif, junit, github, markdown, json-alpha1 or preflight",
        panel=REPORT_PANEL,
        metavar="FORM",
    )
    fail_on: FailOnOption = ""
    baseline: Path | None = flag(None, "File with known findings to ignore", metavar="FILE")
    write_baseline: Path | None = flag(None, "Write all findings to a baseline and exit with code 0", metavar="FILE")
    no_cache: bool = flag(False, "Do not use the cache of earlier results")

    def report_format(self, command: str = COMMAND) -> ReportFormat:
        """Return the format of the report; raises UsageError with a hint to ``command`` if it is unknown."""
        formats = tuple(ReportFormat)
        name = self.output or (self.optional_validators if self.optional_validators in formats else "text")
        if name not in formats:
            hint, similar = f"use {', '.join(formats)}", similar_names(name, formats)
            raise UsageError(f'invalid value of --output: "{name}"', command, hint=hint, similar=similar)
        return ReportFormat(name)

    def validators(self, *, as_go: bool) -> list[str]:
        """Return the names of the validators that ``-o`` adds.

        With ``as_go``, an unknown one is ignored, as in Go opm; otherwise it is an error, since it can be a format.

        Raises:
            UsageError: A validator is unknown.
        """
        is_format = self.optional_validators in tuple(ReportFormat)
        names = [] if is_format else [name.strip() for name in self.optional_validators.split(",")]
        unknown = [name for name in names if name and name not in _GO_VALIDATORS]
        known = f"{' and '.join(_GO_VALIDATORS)} are known, and the formats {', '.join(ReportFormat)}"
        if unknown and not as_go:
            hint = f"-o selects validators, or one of the formats of --output: {', '.join(ReportFormat)}"
            raise UsageError(f"unknown optional validator {unknown[0]!r}", COMMAND, hint=hint)
        print_warnings(f"unknown optional validator {name!r}: ignored; {known}" for name in unknown)
        return [name for name in names if name in _GO_VALIDATORS]


def validation_options(
    rule_flags: RuleFlags, tag_flags: TagFlags, report_flags: ReportFlags, program: str, shard: str
) -> ValidationOptions:
    """Return the options of a validation.

    Args:
        rule_flags: The rules to run.
        tag_flags: The tags of repositories.
        report_flags: The report, and the findings that make the command fail.
        program: Program whose rules and results are the default, as the name of a profile; "" for opmkit's own.
        shard: Part of the bundles, "" for all.

    Raises:
        UsageError, InvalidShard: A flag has an invalid value.
        InvalidPolicy, DiskError: The policy file is invalid or cannot be read.
    """
    from opmkit import ValidationOptions

    policy = load_policy(find_policy_file(rule_flags.config), rule_flags.ignore or (), COMMAND)
    return ValidationOptions(
        profile=rule_flags.profile,
        program=program,
        compat=rule_flags.compat_mode(),
        selectors=rule_flags.select_optional or (),
        optional=report_flags.validators(as_go=program == "opm"),
        optional_values=rule_flags.optional_values or (),
        external=tuple(filter(None, rule_flags.alpha_select_external.strip().split(os.pathsep))),
        replaces=rule_flags.from_bundle,
        olm=rule_flags.olm_version(),
        policy=policy,
        fail_on=parse_fail_on(report_flags.fail_on, policy, COMMAND),
        baseline=report_flags.baseline,
        ignore_baseline=report_flags.write_baseline is not None,
        labels_only=rule_flags.labels_only,
        tags=tag_flags.tags or (),
        exclude_tags=tag_flags.exclude_tags or (),
        shard=Shard.parse(shard) if shard else None,
        use_cache=not report_flags.no_cache,
    )
