"""Settings of a validation from the flags and the policy file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.cli import policy_file
from opmkit.cli.flags.validation import COMMAND
from opmkit.cli.output.errors import UsageError

if TYPE_CHECKING:
    from opmkit import Severity
    from opmkit.bundle.policy import Policy
    from opmkit.bundle.validation.baseline import Baseline
    from opmkit.bundle.validation.bundle_view import Options
    from opmkit.bundle.validation.compat import Compat
    from opmkit.bundle.validation.parallel_validator import ValidatorConfig
    from opmkit.bundle.validation.platforms import Inspect
    from opmkit.bundle.validation.profiles import Profile
    from opmkit.bundle.validation.shard_report import ReportSettings
    from opmkit.cli.flags.validation import ReportFlags, RuleFlags

MULTIARCH = "multiarch"


@dataclass(frozen=True, slots=True)
class ValidationPlan:
    """Settings of a validation.

    Attributes:
        profile: the validators to run.
        compat: the program whose results to give.
        optional: names of additional validators.
        options: values for optional validators.
        policy: severities and ignored rules.
        fail_on: lowest severity that makes the command fail.
        labels_only: whether only the labels of images are validated.
        known: findings of the baseline, None without one.
        external: programs that validate each bundle in addition.
    """

    profile: Profile
    compat: Compat
    optional: tuple[str, ...]
    options: Options
    policy: Policy
    fail_on: Severity
    labels_only: bool
    known: Baseline | None
    external: tuple[str, ...] = ()

    @classmethod
    def from_flags(cls, rule_flags: RuleFlags, report_flags: ReportFlags, program: str = "") -> ValidationPlan:
        """Combine the flags with the policy file and the baseline.

        Args:
            rule_flags: the rules to run.
            report_flags: the report, and the findings that make the command fail.
            program: program whose rules and results are the default, as the name of a profile; "" for opmkit's own.

        Raises:
            UsageError: a flag has an invalid value.
            UnknownName, InvalidSelector, InvalidOption: an option of the validators is invalid.
            InvalidPolicy, DiskError: the policy file or the baseline is invalid or cannot be read.
        """
        from opmkit.bundle.validation.baseline import read_baseline
        from opmkit.bundle.validation.optional_validators import CATEGORIES_VARIABLE, read_options, select_validators
        from opmkit.bundle.validation.profiles import DEFAULT, profile_named

        policy = load_policy(rule_flags, report_flags)
        profile = profile_named(rule_flags.profile or policy.profile or program or DEFAULT)
        compat = parse_compat(rule_flags.compat or ("newest" if profile.name == program else ""))
        fail_on = policy_file.parse_fail_on(report_flags.fail_on, policy, COMMAND)
        chosen = [
            validator.name for text in rule_flags.select_optional or () for validator in select_validators(text, compat)
        ]
        values = [*(f"{key}={value}" for key, value in policy.optional_values), *(rule_flags.optional_values or ())]
        return cls(
            profile,
            compat,
            tuple(dict.fromkeys([*policy.optional, *chosen, *report_flags.validators()])),
            read_options(values, os.environ.get(CATEGORIES_VARIABLE, "")),
            policy,
            fail_on,
            rule_flags.labels_only,
            read_baseline(Path(policy.baseline)) if policy.baseline and not report_flags.write_baseline else None,
            tuple(filter(None, rule_flags.alpha_select_external.strip().split(os.pathsep))),
        )

    def validator_config(self, inspect: Inspect) -> ValidatorConfig:
        """Return the configuration of the validator processes; ``inspect`` looks up platforms in registries."""
        from opmkit.bundle.validation.parallel_validator import ValidatorConfig
        from opmkit.bundle.validation.run import ProfileValidator, validate_labels

        validate = validate_labels if self.labels_only else ProfileValidator(self.profile, self.optional)
        return ValidatorConfig(validate, self.compat, self.options, inspect if self.needs_registries else None)

    def report_settings(self) -> ReportSettings:
        """Return the settings that a report depends on."""
        from opmkit.bundle.validation.shard_report import ReportSettings

        return ReportSettings(self.profile.name, self.compat.value, self.fail_on, self.policy, self.known)

    @property
    def needs_registries(self) -> bool:
        """Return true if a rule depends on the current contents of registries."""
        return MULTIARCH in self.optional

    @property
    def can_use_cache(self) -> bool:
        """Return true if the results depend only on the bundle and the settings in `cache_key`."""
        return not self.needs_registries and not self.external

    def cache_key(self) -> tuple[str, ...]:
        """Return all settings that the results depend on in addition to the bundle."""
        labels = str(self.labels_only)
        return (self.profile.name, self.compat.value, labels, repr(self.options), *self.optional)


def parse_compat(version: str) -> Compat:
    """Return the compatibility mode, opmkit's own for ""; raises UsageError if it is unknown."""
    from opmkit.bundle.validation.compat import Compat
    from opmkit.index.fbc.compat import CatalogCompat as Release

    if version in ("", "opmkit"):
        return Compat.OPMKIT
    release = Release.parse(version)
    if release not in (Release.OPM_1_26, Release.NEWEST):
        raise UsageError(f"--compat {version}: unsupported for bundles: newest or 1.26", COMMAND)
    return Compat.NEWEST if release == Release.NEWEST else Compat.OPM_1_26


def load_policy(rule_flags: RuleFlags, report_flags: ReportFlags) -> Policy:
    """Return the policy of the file with the additions of the flags."""
    from dataclasses import replace

    path = policy_file.find_policy_file(rule_flags.config)
    policy = policy_file.load_policy(path, rule_flags.ignore or (), COMMAND)
    if policy.baseline and path and not report_flags.baseline:
        policy = replace(policy, baseline=str(path.parent / policy.baseline))
    return replace(policy, baseline=str(report_flags.baseline) if report_flags.baseline else policy.baseline)
