"""Validation of bundles for ``opm bundle validate``, and the results of ``opm report merge``."""

from __future__ import annotations

import gc
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.cli.hints import format_hint
from opmkit.cli.progress.command import progress
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opmkit import ValidationResult
    from opmkit.bundle.validation.cache import ValidationCache
    from opmkit.bundle.validation.platforms import ImagePlatforms
    from opmkit.bundle.validation.shard_report import ReportSettings
    from opmkit.bundle.validation.sources import Source
    from opmkit.cli.flags.executors import CommandExecutor
    from opmkit.cli.validation_plan import ValidationPlan
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.imagetools.tools.tool import ContainerTool


@dataclass(frozen=True, slots=True)
class ValidationRun:
    """Validates bundles as a plan says.

    Attributes:
        tool: Returns the tool that reads images.
        registry: Returns the tool that looks up platforms.
        plan: Settings of the validation.
        use_cache: Whether results of earlier runs are used.
        executor: Workers that read and validate the bundles, None for this process.
    """

    tool: Callable[[], ContainerTool]
    registry: Callable[[], RegistryTool]
    plan: ValidationPlan
    use_cache: bool
    executor: CommandExecutor | None = None

    def results(self, sources: Sequence[Source]) -> list[ValidationResult]:
        """Return the results in the order of ``sources``, each by itself and before the policy is applied."""
        from opmkit.bundle.validation.parallel_validator import GC_THRESHOLD
        from opmkit.bundle.validation.sources import read_files, read_labels
        from opmkit.bundle.validation.validator import BundleValidator

        plan = self.plan
        if self.executor is not None:
            return self._distributed(self.executor, sources)
        gc.set_threshold(GC_THRESHOLD)
        validator = BundleValidator(
            self.tool,
            plan.validator_config(self._find_platforms),
            read=read_labels if plan.labels_only else read_files,
            cache=_open_cache(plan) if self.use_cache and plan.can_use_cache else None,
            external=plan.external,
        )
        with progress() as bars:
            return [_format_hint(result) for result in validator.run(sources, progress=bars)]

    def _distributed(self, executor: CommandExecutor, sources: Sequence[Source]) -> list[ValidationResult]:
        from opmkit.bundle.validation.batch import ValidationTask

        plan = self.plan
        executor.check_paths(source.target for source in sources if isinstance(source.location, Path))
        task = ValidationTask(
            executor.worker,
            replace(plan.validator_config(self._find_platforms), inspect=None),
            plan.labels_only,
            plan.cache_key() if self.use_cache and plan.can_use_cache else None,
            plan.needs_registries,
        )
        return [_format_hint(result) for result in executor.map("Validating", task, sources, "bundles")]

    def _find_platforms(self, image: str) -> ImagePlatforms | None:
        from opmkit.bundle.validation.platforms import find_platforms

        return find_platforms(self.registry(), image)


def combine_results(
    results: Sequence[ValidationResult], sources: Sequence[Source], settings: ReportSettings
) -> list[ValidationResult]:
    """Return the results of all bundles with those of cross-bundle rules, without ignored and known findings."""
    if len(results) > 1:
        from opmkit.bundle.validation.compat import Compat
        from opmkit.bundle.validation.profiles import profile_named
        from opmkit.bundle.validation.validator import add_cross_bundle_findings, cross_bundle_rules

        rules = cross_bundle_rules(profile_named(settings.profile), Compat(settings.compat))
        results = add_cross_bundle_findings(results, sources, rules)
    return apply_settings(results, settings)


def apply_settings(results: Sequence[ValidationResult], settings: ReportSettings) -> list[ValidationResult]:
    """Return the results without ignored and known findings."""
    results = [settings.policy.apply(result) for result in results]
    if settings.known is None:
        return results
    from opmkit.bundle.validation.baseline import exclude_known

    return [exclude_known(result, settings.known) for result in results]


def _format_hint(result: ValidationResult) -> ValidationResult:
    """Return the result with its hint in terms of the flags of this command."""
    return replace(result, hint=Hint(format_hint(result.hint))) if result.hint else result


def _open_cache(plan: ValidationPlan) -> ValidationCache:
    from opmkit.bundle.validation.cache import ValidationCache
    from opmkit.imagetools.store.directory import cache_directory

    return ValidationCache.open(cache_directory("verdicts"), plan.cache_key())
