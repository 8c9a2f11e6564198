"""Results of one shard of a validation with its settings, as reports contain them, and their merge."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from opmkit._version import __version__
from opmkit.bundle.errors import BundleError
from opmkit.bundle.finding import Severity
from opmkit.bundle.policy import Ignore, Policy
from opmkit.bundle.validation.baseline import exclude_known
from opmkit.bundle.validation.cache import decode_result, encode_result
from opmkit.bundle.validation.sources import SkippedTags, Source
from opmkit.core.hints import Hint
from opmkit.core.json_types import expect, expect_fields, field_types, field_values
from opmkit.core.shard import Shard
from opmkit.imagetools.errors import InvalidReference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.bundle.validation.baseline import Baseline
    from opmkit.bundle.validation.result import ValidationResult


class InvalidReport(BundleError):
    """Reports cannot be merged."""


class Selection(Struct, frozen=True):
    """The bundles of all shards: their number, a digest of their names, and the skipped tags."""

    total: int
    digest: str
    skipped: SkippedTags

    @classmethod
    def from_sources(cls, sources: Sequence[Source], skipped: SkippedTags) -> Self:
        """Return the selection of these bundles."""
        names = "\0".join(source.target for source in sources)
        return cls(len(sources), hashlib.sha256(names.encode()).hexdigest(), skipped)


class PlacedResult(Struct, frozen=True):
    """The result of a bundle before the policy is applied, and the position of the bundle among those of all shards."""

    position: int
    source: Source
    result: ValidationResult


class ShardReport(Struct, frozen=True):
    """The results of one shard, with all that a merge needs."""

    shard: Shard
    selection: Selection
    settings: ReportSettings
    results: tuple[PlacedResult, ...]

    def encode(self) -> dict[str, Any]:
        """Return the report in JSON types."""
        selection = self.selection
        return {
            "release": __version__,
            "index": self.shard.index,
            "count": self.shard.count,
            "total": selection.total,
            "targets": selection.digest,
            "skipped": [selection.skipped.attachments, selection.skipped.excluded],
            "settings": self.settings.encode(),
            "results": [_encode_placed(placed) for placed in self.results],
        }

    @classmethod
    def decode(cls, value: Mapping[str, Any]) -> Self:
        """Return the report that `encode` wrote; raise LookupError, TypeError or ValueError if it is damaged."""
        return cls(
            Shard(int(value["index"]), int(value["count"])),
            Selection(int(value["total"]), expect(value["targets"], str), SkippedTags(*map(int, value["skipped"]))),
            ReportSettings.decode(value["settings"]),
            tuple(map(_decode_placed, value["results"])),
        )


def merge_shards(reports: Sequence[tuple[str, ShardReport]]) -> list[PlacedResult]:
    """Return the results of all shards in the order of one process.

    Args:
        reports: The names and contents of the reports.

    Raises:
        InvalidReport: A shard is missing or duplicate, or the reports belong to different runs.
    """
    (first_name, first), *others = reports
    for name, report in others:
        _check_same_run(first_name, first, name, report)
    by_index: dict[int, str] = {}
    for name, report in reports:
        index = report.shard.index
        if index in by_index:
            raise InvalidReport(
                f"{name}: shard {report.shard} is already in {by_index[index]}", hint="pass one report of each shard"
            )
        by_index[index] = name
    missing = [index for index in range(1, first.shard.count + 1) if index not in by_index]
    if missing:
        shown = ", ".join(f"{index}/{first.shard.count}" for index in missing[:5])
        raise InvalidReport(
            f"reports of shards not found: {shown}{' and more' if len(missing) > 5 else ''}",
            hint="run the missing shards again, and pass the reports of all shards",
        )
    merged = sorted(chain.from_iterable(report.results for _, report in reports), key=lambda placed: placed.position)
    if [placed.position for placed in merged] != list(range(first.selection.total)):
        raise InvalidReport("reports do not contain each bundle once", hint="run all shards again")
    return merged


def _check_same_run(first_name: str, first: ShardReport, name: str, report: ShardReport) -> None:
    if report.shard.count != first.shard.count:
        raise InvalidReport(
            f"{name}: has one of {report.shard.count} shards, but {first_name} one of {first.shard.count}",
            hint="pass the reports of one run",
        )
    if report.selection != first.selection:
        raise InvalidReport(
            f"{name}: its run had other targets than that of {first_name}",
            hint="if tags are pushed meanwhile, list the references in a file and pass it to all shards as @FILE",
        )
    if report.settings != first.settings:
        raise InvalidReport(
            f"{name}: its run had other flags or another policy than that of {first_name}",
            hint="run all shards with the same flags, policy and baseline",
        )


def decode_reports(encoded: Iterable[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, ShardReport]]:
    """Return the reports of shards by name; raise InvalidReport for those of other releases, and for damaged ones."""
    reports = []
    for name, value in encoded:
        if value.get("release") != __version__:
            raise InvalidReport(
                f"{name}: written by release {value.get('release')}, but this is {__version__}",
                hint="run all shards and the merge with the same release",
            )
        try:
            reports.append((name, ShardReport.decode(value)))
        except (LookupError, TypeError, ValueError, BundleError, InvalidReference) as error:
            raise InvalidReport(f"{name}: damaged report: {error}", hint="run this shard again") from error
    return reports


def _encode_placed(placed: PlacedResult) -> dict[str, Any]:
    result, location = placed.result, placed.source.location
    return {
        "position": placed.position,
        "target": result.target,
        "directory": str(location) if isinstance(location, Path) else None,
        "of_operator": placed.source.of_operator,
        "error": result.error,
        "hint": str(result.hint),
        **encode_result(result),
    }


def _decode_placed(value: Mapping[str, Any]) -> PlacedResult:
    from opmkit.bundle.source import parse_location  # slow to import: not needed for directories

    target, directory = expect(value["target"], str), value["directory"]
    location = parse_location(target) if directory is None else Path(directory)
    source = Source(target, location, of_operator=expect(value["of_operator"], bool))
    error, hint = expect(value["error"], str), expect(value["hint"], str)
    result = decode_result(value, target, error=error, hint=Hint(hint) if hint else Hint())
    return PlacedResult(expect(value["position"], int), source, result)


class ReportSettings(Struct, frozen=True):
    """Settings that a report depends on in addition to the results.

    Attributes:
        profile: Name of the profile, which has the cross-bundle rules.
        compat: Value of the compatibility mode.
        fail_on: Lowest severity that makes the command fail.
        policy: Severities and ignored findings.
        known: Findings of the baseline, None without one.
    """

    profile: str
    compat: str
    fail_on: Severity
    policy: Policy
    known: Baseline | None = None

    def apply(self, result: ValidationResult) -> ValidationResult:
        """Return the result without ignored and known findings."""
        applied = self.policy.apply(result)
        return applied if self.known is None else exclude_known(applied, self.known)

    def encode(self) -> dict[str, Any]:
        """Return the settings in JSON types."""
        return {
            "profile": self.profile,
            "compat": self.compat,
            "fail_on": self.fail_on.value,
            "severities": [[rule, severity and severity.value] for rule, severity in self.policy.severities],
            "ignores": [field_values(ignore) for ignore in self.policy.ignores],
            "known": None if self.known is None else [[*key, count] for key, count in sorted(self.known.items())],
        }

    @classmethod
    def decode(cls, value: Mapping[str, Any]) -> Self:
        """Return the settings that `encode` wrote."""
        from opmkit.bundle.validation.compat import Compat
        from opmkit.bundle.validation.profiles import profile_named

        known = value["known"]
        severities = tuple((expect(rule, str), Severity(name) if name else None) for rule, name in value["severities"])
        ignores = tuple(expect_fields(Ignore(**ignore), field_types(Ignore("", ""))) for ignore in value["ignores"])
        return cls(
            profile_named(expect(value["profile"], str)).name,
            Compat(value["compat"]).value,
            Severity(value["fail_on"]),
            Policy(severities=severities, ignores=ignores),
            None if known is None else Counter({(a, b, c, d): expect(count, int) for a, b, c, d, count in known}),
        )
