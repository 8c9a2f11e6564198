"""The results of one validation of bundles, in the formats of reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from msgspec import structs

from opmkit._version import __version__
from opmkit.bundle.hint_terms import BundleOperation, BundleSetting
from opmkit.bundle.reports import json
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.profiles import profile_named
from opmkit.bundle.validation.result import ValidationResult
from opmkit.bundle.validation.shard_report import (
    InvalidReport,
    PlacedResult,
    Selection,
    ShardReport,
    decode_reports,
    merge_shards,
)
from opmkit.bundle.validation.sources import SkippedTags
from opmkit.bundle.validation.validator import add_cross_bundle_findings, cross_bundle_rules
from opmkit.core.files import check_output, disk_errors, read_limited
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from opmkit.bundle.finding import Severity
    from opmkit.bundle.validation.shard_report import ReportSettings
    from opmkit.core.shard import Shard

MAX_REPORT = 1 << 30
"""Maximum size of a report, in bytes."""


@dataclass(frozen=True)
class ValidationReport(Sequence[ValidationResult]):
    """The results of a validation, one per bundle in their order.

    Rules over several bundles are not applied to a shard, which has only some of the bundles, but to the merged report.

    Attributes:
        placed: The results before the policy is applied, and the positions of the bundles among those of all shards.
        settings: The severities, allowed and known findings.
        skipped: The tags that were not validated.
        selection: The bundles of all shards; None unless this is the report of a shard.
        shard: The part of the bundles; None for all.
        form: For a merged report, the format of the first report.
    """

    placed: tuple[PlacedResult, ...]
    settings: ReportSettings
    skipped: SkippedTags = field(default_factory=SkippedTags)
    selection: Selection | None = None
    shard: Shard | None = None
    form: str = ""

    @cached_property
    def results(self) -> tuple[ValidationResult, ...]:
        """The results with those of cross-bundle rules, without ignored and known findings."""
        settings, sources = self.settings, [placed.source for placed in self.placed]
        results: Sequence[ValidationResult] = [placed.result for placed in self.placed]
        if len(results) > 1 and self.shard is None:
            rules = cross_bundle_rules(profile_named(settings.profile), Compat(settings.compat))
            results = add_cross_bundle_findings(results, sources, rules)
        return tuple(map(settings.apply, results))

    @overload
    def __getitem__(self, index: int) -> ValidationResult: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ValidationResult]: ...

    def __getitem__(self, index: int | slice) -> ValidationResult | Sequence[ValidationResult]:
        """Return the result of a bundle."""
        return self.results[index]

    def __len__(self) -> int:
        """Return the number of bundles."""
        return len(self.placed)

    @property
    def fail_on(self) -> Severity:
        """The lowest severity of findings with which a bundle does not pass."""
        return self.settings.fail_on

    @property
    def failed(self) -> tuple[ValidationResult, ...]:
        """The results that did not pass."""
        return tuple(result for result in self if not result.passes(self.fail_on))

    @property
    def passed(self) -> bool:
        """Whether all bundles passed."""
        return not self.failed

    @property
    def without_annotations(self) -> tuple[str, ...]:
        """The names of the manifests directories among the targets, whose annotations were not validated."""
        sources = [placed.source for placed in self.placed if not placed.result.error]
        return tuple(source.target for source in sources if source.lacks_annotations)

    def with_hints(self, render: Callable[[Hint], str]) -> ValidationReport:
        """Return the report with the hints of errors as plain texts.

        Args:
            render: Returns the text of a hint.
        """

        def with_text(placed: PlacedResult) -> PlacedResult:
            hint = placed.result.hint
            return structs.replace(placed, result=replace(placed.result, hint=Hint(render(hint)))) if hint else placed

        return replace(self, placed=tuple(map(with_text, self.placed)))

    def to_dict(self) -> dict[str, Any]:
        """Return the report in JSON types, see docs/validation.md."""
        value = json.report(self.results, self.fail_on, self.skipped.total)
        return {**value, json.SHARD_KEY: self._shard_data()} if self.shard else value

    def to_json_alpha1(self) -> dict[str, Any]:
        """Return the result of the first bundle in the format json-alpha1 of operator-sdk."""
        return json.json_alpha1(self[0])

    def to_preflight(self) -> dict[str, Any]:
        """Return the results of the first bundle in the format of openshift-preflight; the profile is ``preflight``."""
        from opmkit.bundle.reports import preflight

        return preflight.report(self[0], __version__)

    def to_sarif(self) -> dict[str, Any]:
        """Return the report as a SARIF log."""
        from opmkit.bundle.reports import sarif
        from opmkit.bundle.validation.rule_registry import rules

        sources = [placed.source for placed in self.placed]
        roots = {source.target: sarif.target_uri(source.target, source.location) for source in sources}
        log = sarif.report(self.results, rules(), roots)
        return json.add_to_sarif(log, self._shard_data()) if self.shard else log

    def to_junit(self) -> str:
        """Return the report as a JUnit document."""
        from opmkit.bundle.reports import junit

        document = junit.report(self.results, self.fail_on)
        return json.add_to_junit(document, self._shard_data()) if self.shard else document

    def to_markdown(self) -> str:
        """Return the report in Markdown."""
        from opmkit.bundle.reports import markdown

        return markdown.report(self.results, self.fail_on)

    def text_lines(self) -> Iterator[tuple[str, str]]:
        """Yield the lines of the report with their styles."""
        from opmkit.bundle.reports import text

        return text.lines(self.results, self.skipped)

    def github_lines(self) -> Iterator[str]:
        """Yield the commands of a GitHub workflow for the findings."""
        from opmkit.bundle.reports import github

        return github.lines(self.results)

    def write_baseline(self, path: Path) -> int:
        """Write all findings to a baseline, and return their number; raises DiskError."""
        from opmkit.bundle.validation.baseline import encode_baseline

        check_output(path)
        with disk_errors(path):
            path.write_bytes(encode_baseline(self))
        return sum(len(result.findings) for result in self)

    def _shard_data(self) -> dict[str, Any]:
        """Return what a merge needs."""
        if self.shard is None or self.selection is None:
            return {}
        return ShardReport(self.shard, self.selection, self.settings, self.placed).encode()


def merge_reports(paths: Sequence[Path]) -> ValidationReport:
    """Return the report of all shards, from the JSON, SARIF or JUnit reports of each.

    Raises:
        InvalidReport: A shard is missing or duplicate, a report is damaged, or the reports belong to different runs.
        DiskError: A report cannot be read.
    """
    read = [_read(path) for path in paths]
    decoded = decode_reports((str(path), data) for path, (_, data) in zip(paths, read, strict=True))
    _, first = decoded[0]
    return ValidationReport(tuple(merge_shards(decoded)), first.settings, first.selection.skipped, form=read[0][0])


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the format of a report and the data of its shard; raise InvalidReport if it has none."""
    with disk_errors(path):
        found = json.extract(read_limited(path, MAX_REPORT))
    if found is None:
        raise InvalidReport(
            f"{path}: not the report of a shard",
            hint=Hint(
                "write it with {} and {}, sarif or junit",
                BundleOperation.VALIDATE_SHARD.with_arguments("K/N"),
                BundleSetting.OUTPUT.with_value("json"),
            ),
        )
    return found
