"""Options of the validation of bundles, and the settings that they result in."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opmkit.bundle.finding import Severity
from opmkit.bundle.policy import Policy
from opmkit.bundle.validation.baseline import read_baseline
from opmkit.bundle.validation.cache_key import CATEGORIES_VARIABLE
from opmkit.bundle.validation.compat import Compat, Options
from opmkit.bundle.validation.profiles import DEFAULT, profile_named
from opmkit.bundle.validation.shard_report import ReportSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.bundle.validation.compat import OlmVersion
    from opmkit.bundle.validation.parallel_validator import ValidatorConfig
    from opmkit.bundle.validation.platforms import Inspect
    from opmkit.bundle.validation.profiles import OptionalValidator, Profile
    from opmkit.core.shard import Shard

MULTIARCH = "multiarch"


@dataclass(frozen=True, slots=True)
class ValidationOptions:
    """Options of the validation of bundles.

    Attributes:
        profile: Name of the profile, the validators to run; "" for that of the policy, of ``program``, or the default.
        program: Program whose rules and results are the default, as the name of a profile; "" for opmkit's own.
        compat: Program whose results to give; by default opmkit, or the newest release of ``program`` or the profile.
        selectors: Label selectors of optional validators to run in addition.
        optional: Names of optional validators to run in addition.
        optional_values: Values for optional validators, as ``KEY=VALUE,...``.
        external: Programs that validate each bundle in addition.
        replaces: Bundle directory or image that the bundles replace; "" to run no rules about upgrades.
        olm: The OLM that upgrades the operator, None for both.
        policy: Severities, allowed findings and defaults of other options, see `Opm.read_policy`.
        fail_on: Lowest severity of findings with which a bundle does not pass; by default that of the policy.
        baseline: File with known findings to ignore; by default that of the policy.
        ignore_baseline: Whether to report known findings as well.
        labels_only: Whether to validate only the labels of images.
        tags: Glob patterns of the tags of repositories to validate; by default all except signatures and attestations.
        exclude_tags: Glob patterns of tags to skip.
        shard: Part of the bundles to validate.
        use_cache: Whether to use the results of earlier runs, and to store new ones.
    """

    profile: str = "all"
    program: str = ""
    compat: Compat | None = None
    selectors: Sequence[str] = ()
    optional: Sequence[str] = ()
    optional_values: Sequence[str] = ()
    external: Sequence[str] = ()
    replaces: str = ""
    olm: OlmVersion | None = None
    policy: Policy = field(default_factory=Policy)
    fail_on: Severity | None = None
    baseline: Path | None = None
    ignore_baseline: bool = False
    labels_only: bool = False
    tags: Sequence[str] = ()
    exclude_tags: Sequence[str] = ()
    shard: Shard | None = None
    use_cache: bool = False

    @property
    def profile_name(self) -> str:
        """The name of the profile that runs."""
        return self.profile or self.policy.profile or self.program or DEFAULT

    def available_validators(self) -> tuple[OptionalValidator, ...]:
        """Return the optional validators that options with this ``compat`` can select."""
        from opmkit.bundle.validation.optional_validators import available_validators

        return available_validators(self.compat or Compat.OPMKIT)

    def plan(self) -> ValidationPlan:
        """Combine the options with the policy and the baseline.

        Raises:
            UnknownName, InvalidSelector, InvalidOption: An option of the validators is invalid.
            InvalidPolicy, DiskError: The baseline is invalid or cannot be read.
        """
        policy = self.policy
        profile = profile_named(self.profile_name)
        default = Compat.NEWEST if profile.name == self.program else Compat.OPMKIT
        compat = self.compat or profile.compat or default
        optional = tuple(dict.fromkeys([*policy.optional, *self._selected(compat), *self.optional]))
        options = replace(self._read_options(), olm=self.olm)
        path = self.baseline or policy.baseline
        known = read_baseline(Path(path), regular=not self.baseline) if path and not self.ignore_baseline else None
        fail_on = self.fail_on or policy.fail_on or Severity.ERROR
        settings = ReportSettings(profile.name, compat.value, fail_on, policy, known)
        return ValidationPlan(profile, compat, optional, options, settings, self.labels_only, tuple(self.external))

    def _selected(self, compat: Compat) -> list[str]:
        """Return the names of the optional validators that the selectors match."""
        if not self.selectors:
            return []
        from opmkit.bundle.validation.optional_validators import select_validators  # slow to import: often not needed

        return [validator.name for text in self.selectors for validator in select_validators(text, compat)]

    def _read_options(self) -> Options:
        values = [*(f"{key}={value}" for key, value in self.policy.optional_values), *self.optional_values]
        categories = os.environ.get(CATEGORIES_VARIABLE, "")
        if not values and not categories:
            return Options()
        from opmkit.bundle.validation.optional_validators import read_options

        return read_options(values, categories)


class ValidationPlan(Struct, frozen=True):
    """Settings of a validation.

    Attributes:
        profile: The validators to run.
        compat: The program whose results to give.
        optional: Names of additional validators.
        options: Values for optional validators.
        settings: Severities, ignored rules and known findings.
        labels_only: Whether only the labels of images are validated.
        external: Programs that validate each bundle in addition.
    """

    profile: Profile
    compat: Compat
    optional: tuple[str, ...]
    options: Options
    settings: ReportSettings
    labels_only: bool
    external: tuple[str, ...] = ()

    def replacing(self, definitions: tuple[bytes, ...]) -> ValidationPlan:
        """Return the plan for bundles that replace one with these files of CustomResourceDefinitions."""
        return replace(self, options=replace(self.options, replaced_crds=definitions))

    def validator_config(self, inspect: Inspect | None) -> ValidatorConfig:
        """Return the configuration of the validator processes; ``inspect`` looks up platforms in registries."""
        from opmkit.bundle.validation.parallel_validator import ValidatorConfig
        from opmkit.bundle.validation.run import ProfileValidator, validate_labels

        validate = validate_labels if self.labels_only else ProfileValidator(self.profile, self.optional)
        return ValidatorConfig(validate, self.compat, self.options, inspect if self.needs_registries else None)

    @property
    def needs_registries(self) -> bool:
        """Return true if a rule depends on the current contents of registries."""
        return MULTIARCH in self.optional

    def cache_key(self) -> tuple[str, ...] | None:
        """Return all settings that the results depend on in addition to the bundle; None if they depend on more."""
        if self.needs_registries or self.external:
            return None
        labels = str(self.labels_only)
        return (self.profile.name, self.compat.value, labels, repr(self.options), *self.optional)
