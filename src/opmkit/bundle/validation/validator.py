"""Validate many bundles: pull them concurrently, and reuse cached results."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from opmkit.bundle.validation.cache import ValidationCache
from opmkit.bundle.validation.cross_bundle import LOCATED_FIELDS, run_cross_bundle_rules
from opmkit.bundle.validation.cross_bundle import VALIDATOR as CROSS_BUNDLE
from opmkit.bundle.validation.parallel_validator import NamedBundle, ParallelValidator
from opmkit.bundle.validation.result import ValidationResult
from opmkit.bundle.validation.sources import BundleFiles, read_files, read_labels
from opmkit.core.errors import OpmkitError
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import ordered_parallel_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.compat import Compat
    from opmkit.bundle.validation.cross_bundle import ComparedBundle
    from opmkit.bundle.validation.parallel_validator import PendingResult, ValidatorConfig
    from opmkit.bundle.validation.profiles import Profile
    from opmkit.bundle.validation.rule import Rule
    from opmkit.bundle.validation.sources import GetTool, Source
    from opmkit.imagetools.worker_options import WorkerOptions


LOOKAHEAD = 32
"""Maximum number of bundles that are pulled ahead of validation, which bounds the memory for their files."""


class BundleValidator(Struct, frozen=True):
    """Validates bundles from directories and images.

    Attributes:
        get_tool: Returns the tool that reads images; not called for directories.
        config: How to validate a bundle.
        read: Reads the parts of a bundle that the rules need.
        cache: Results of earlier runs.
        external: Programs that validate each bundle in addition; their results are not cached.
        processes: Number of worker processes, by default one per spare CPU.
    """

    get_tool: GetTool
    config: ValidatorConfig
    read: Callable[[GetTool, Source], BundleFiles] = read_files
    cache: ValidationCache | None = None
    external: tuple[str, ...] = ()
    processes: int | None = None

    def run(self, sources: Iterable[Source], *, progress: Progress = NO_PROGRESS) -> Iterator[ValidationResult]:
        """Yield one result per source, in their order. For a bundle that cannot be read, the result is the error."""
        progress.begin("Validating", None, unit="bundles")
        processes = 0 if self.config.inspect else self.processes
        with ParallelValidator(self.config, processes) as validator:
            pull = partial(self._pull, validator)
            try:
                with closing(ordered_parallel_map(pull, sources, lookahead=LOOKAHEAD)) as pulled:
                    for source, future in pulled:
                        yield self._result(source, future, validator)
                        progress.advance(1)
            finally:
                progress.end()

    def _pull(self, validator: ParallelValidator, source: Source) -> _PulledBundle:
        """Return the cached result, or read the bundle and submit it for validation."""
        if isinstance(source.location, Path):
            return self._pull_directory(validator, source, source.location)
        digest = self.get_tool().digest(source.location) if self.cache else ""
        cached = self._cached(digest, source)
        if cached is not None:
            return _PulledBundle(digest, digest, cached)
        validator.prepare()
        if digest:  # the tag could be moved in the meantime
            source = structs.replace(source, location=self.get_tool().pin(source.location, digest))
        bundle = self.read(self.get_tool, source)
        identity = digest or bundle.digest
        return _PulledBundle(digest, identity, validator.submit(NamedBundle(source.target, bundle)), bundle.files)

    def _pull_directory(self, validator: ParallelValidator, source: Source, directory: Path) -> _PulledBundle:
        """Read a directory, and return the cached result for its files or submit them for validation."""
        bundle = self.read(self.get_tool, source)
        digest = bundle.digest if self.cache else ""
        result = self._cached(digest, source) or validator.submit(NamedBundle(source.target, bundle))
        return _PulledBundle(digest, os.path.realpath(directory), result, bundle.files)

    def _cached(self, digest: str, source: Source) -> ValidationResult | None:
        return self.cache.get(digest, source.target) if self.cache and digest else None

    def _result(self, source: Source, future: Future[_PulledBundle], validator: ParallelValidator) -> ValidationResult:
        try:
            pulled = future.result()
        except OpmkitError as error:
            return ValidationResult(source.target, error=error.message, hint=error.hint)
        if isinstance(pulled.result, ValidationResult):
            return pulled.identify(pulled.result)
        result = validator.result(pulled.result)
        if self.cache and pulled.digest:
            self.cache.put(pulled.digest, result)
        return pulled.identify(self._validate_externally(result, source, pulled.files))

    def _validate_externally(
        self, result: ValidationResult, source: Source, files: Mapping[str, bytes]
    ) -> ValidationResult:
        """Return the result with the findings of the external validators."""
        if not self.external:
            return result
        from opmkit.bundle.validation.external import bundle_directory, run_external_validators  # slow to import

        with bundle_directory(source.location, files) as directory:
            findings = run_external_validators(self.external, directory)
        return replace(result, findings=(*result.findings, *findings))


_OPERATOR_RULES = frozenset({"ACROSS-REPLACES-MISSING", "ACROSS-REPLACES-CYCLE", "ACROSS-CHANNEL-HEADS"})
"""Cross-bundle rules for which the validator ``operator`` has stricter ones."""


def cross_bundle_rules(profile: Profile, compat: Compat) -> list[Rule]:
    """Return the cross-bundle rules of a profile, none unless it has all validators."""
    if not profile.all_validators:
        return []
    from opmkit.bundle.validation.rule_registry import validators  # slow to import

    return [rule for rule in validators().get(CROSS_BUNDLE, ()) if compat in rule.compat]


def add_cross_bundle_findings(
    results: Sequence[ValidationResult], sources: Iterable[Source], rules: Iterable[Rule]
) -> list[ValidationResult]:
    """Return the results with the findings of the cross-bundle rules added."""
    by_target = {source.target: source for source in sources}
    findings: dict[str, list[Finding]] = {}
    for summary, finding in run_cross_bundle_rules((result.summary for result in results if result.summary), rules):
        source = by_target[summary.target]
        if not (source.of_operator and finding.rule in _OPERATOR_RULES):
            findings.setdefault(summary.target, []).append(_locate(finding, summary, source))
    return [replace(result, findings=(*result.findings, *findings.get(result.target, ()))) for result in results]


def _locate(finding: Finding, summary: ComparedBundle, source: Source) -> Finding:
    """Add the line to a finding in a directory; the files of images are not stored."""
    if not finding.file or not isinstance(source.location, Path):
        return finding
    if finding.path in LOCATED_FIELDS and summary.locations:
        line, column, excerpt = summary.locations[LOCATED_FIELDS.index(finding.path)]
        return replace(finding, line=line, column=column, excerpt=excerpt)
    from opmkit.documents.content import Content  # slow to import: only for rules of other distributions

    try:
        content = Content.read((source.location / finding.file).read_bytes())
    except OSError:  # an escaped name, or removed in the meantime
        return finding
    line, column = content.locate(finding.path)
    return replace(finding, line=line, column=column, excerpt=content.excerpt(line))


class _PulledBundle(Struct, frozen=True):
    """A bundle and its result.

    ``digest`` is the key of the result in the cache, "" without one. ``identity`` is the same for all references of one
    image, and for all paths of one directory.
    """

    digest: str
    identity: str
    result: ValidationResult | PendingResult
    files: Mapping[str, bytes] = {}

    def identify(self, result: ValidationResult) -> ValidationResult:
        """Return the result with the bundle's identity in its summary."""
        if result.summary is None:
            return result
        return replace(result, summary=structs.replace(result.summary, digest=self.identity))


class ValidationTask(Struct, frozen=True):
    """Validates bundles with the tool and the cache of the process that it runs in.

    Attributes:
        worker: How workers access registries.
        config: How to validate a bundle.
        labels_only: Whether only the labels of images are read.
        cache_key: Settings that the results depend on, None to use no cache.
        needs_registries: Whether rules look up platforms in registries.
    """

    worker: WorkerOptions
    config: ValidatorConfig
    labels_only: bool = False
    cache_key: tuple[str, ...] | None = None
    needs_registries: bool = False

    def __call__(self, sources: Sequence[Source]) -> list[ValidationResult]:
        """Return one result per source, in their order."""
        from opmkit.bundle.validation.platforms import find_platforms

        tool = self.worker.tool()
        config = (
            structs.replace(self.config, inspect=partial(find_platforms, tool))
            if self.needs_registries
            else self.config
        )
        cache = None if self.cache_key is None else ValidationCache.open(None, self.cache_key)
        read = read_labels if self.labels_only else read_files
        return list(BundleValidator(lambda: tool, config, read, cache, processes=0).run(sources))
