"""Rules over several bundles, such as those of a package or a catalog.

They work on small summaries, so that thousands of bundles fit into memory.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.rule import Rule, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from semver import Version

    from opmkit.bundle.finding import Severity
    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView
    from opmkit.bundle.versions import VersionKey
    from opmkit.documents.fields import FieldPath

VALIDATOR = "across"
LOCATED_FIELDS: tuple[FieldPath, ...] = (
    ("metadata", "name"),
    ("spec", "version"),
    ("spec", "replaces"),
    ("metadata", "annotations", labels.SUBSTITUTES_FOR),
    ("spec", "customresourcedefinitions", "owned"),
    ("annotations", labels.DEFAULT_CHANNEL),
)
"""Fields that findings of the rules are about, whose locations are in the summary: files are not read for them."""


class ComparedBundle(Struct, frozen=True):
    """Fields of a bundle for cross-bundle rules, empty if absent.

    ``target`` is the name of the bundle on the command line. ``digest`` identifies its image or directory, or is "" if
    unknown; bundles with the same digest are the same bundle. ``csv_file`` and ``annotations_file`` are paths in the
    bundle, ``locations`` line, column and excerpt of each of the `LOCATED_FIELDS`.
    """

    target: str
    package: str
    name: str
    version: str = ""
    release: str = ""
    channels: tuple[str, ...] = ()
    default_channel: str = ""
    replaces: str = ""
    substitutes_for: str = ""
    skips: tuple[str, ...] = ()
    owned_crds: tuple[str, ...] = ()
    digest: str = ""
    csv_file: str = ""
    annotations_file: str = ""
    locations: tuple[tuple[int, int, str], ...] = ()

    @classmethod
    def from_bundle(cls, bundle: BundleView, *, digest: str = "") -> ComparedBundle | None:
        """Return the summary of a bundle, or None if it has no package or no ClusterServiceVersion with a name."""
        from opmkit.bundle.validation.csv_view import Csv  # slow to import: API types, not needed for cached results

        csv, package = Csv.from_bundle(bundle), bundle.annotations.get(labels.PACKAGE, "")
        if csv is None or not csv.name or not package:
            return None
        channels = bundle.annotations.get(labels.CHANNELS, "").split(",")
        return cls(
            bundle.name,
            package,
            csv.name,
            csv.spec.get("version", ""),
            csv.spec.get("release", ""),
            tuple(channel.strip() for channel in channels if channel.strip()),
            bundle.annotations.get(labels.DEFAULT_CHANNEL, ""),
            csv.spec.get("replaces", ""),
            csv.annotations.get(labels.SUBSTITUTES_FOR, ""),
            tuple(csv.spec.get("skips", ())),
            tuple(dict.fromkeys(name for _, _, name in csv.owned_crds if name)),
            digest,
            bundle.csv.path if bundle.csv else "",
            bundle.annotations_file.path if bundle.annotations_file else "",
            tuple(
                _locate(bundle.annotations_file if _in_annotations(path) else bundle.csv, path)
                for path in LOCATED_FIELDS
            ),
        )

    @property
    def parsed_version(self) -> Version:
        """The version, 0.0.0 if it is absent or invalid."""
        return _parse(self.version)

    @property
    def order(self) -> tuple[VersionKey, str, str]:
        """Sort key: precedence of the version, name and target."""
        return _precedence(self.version), self.name, self.target


@lru_cache(maxsize=32_768)
def _precedence(version: str) -> VersionKey:
    from opmkit.bundle.versions import version_key  # slow to import: not needed for a single bundle

    return version_key(_parse(version))


@lru_cache(maxsize=32_768)
def _parse(version: str) -> Version:
    from opmkit.bundle.versions import tolerant_version  # slow to import: not needed for a single bundle

    try:
        return tolerant_version(version)
    except ValueError:
        return tolerant_version("0")


def _in_annotations(path: FieldPath) -> bool:
    return path[:1] == ("annotations",)


def _locate(file: ManifestView | None, path: FieldPath) -> tuple[int, int, str]:
    if file is None:
        return 0, 0, ""
    line, column = file.content.locate(path)
    return line, column, file.content.excerpt(line)


BundleFinding: TypeAlias = tuple[ComparedBundle, Finding]
"""A bundle and a finding about it."""

CrossBundleCheck: TypeAlias = "Callable[[Sequence[ComparedBundle]], Iterable[BundleFinding]]"


def _no_findings(_: object) -> tuple[()]:
    return ()


class CrossBundleRule(Rule, frozen=True):
    """A rule whose check takes the summaries of several bundles; it finds nothing in a single bundle."""

    check_bundles: CrossBundleCheck = _no_findings


def cross_bundle_rule(
    rule_id: str, severity: Severity, summary: str, *, hint: str, bad: str = "", good: str = ""
) -> Callable[[CrossBundleCheck], CrossBundleRule]:
    """Return a decorator that makes a rule of a check; the function's docstring is the explanation."""

    def register(check: CrossBundleCheck) -> CrossBundleRule:
        return CrossBundleRule(
            rule_id,
            VALIDATOR,
            severity,
            summary,
            hint,
            _no_findings,
            explain(check),
            bad,
            good,
            OPMKIT_ONLY,
            check_bundles=check,
        )

    return register


def run_cross_bundle_rules(summaries: Iterable[ComparedBundle], rules: Iterable[Rule]) -> Iterator[BundleFinding]:
    """Yield the findings of the cross-bundle rules among ``rules``, each with its bundle."""
    distinct: dict[str, ComparedBundle] = {}
    for number, summary in enumerate(summaries):
        distinct.setdefault(summary.digest or f"#{number}", summary)
    for rule in rules:
        if isinstance(rule, CrossBundleRule):
            for summary, finding in rule.check_bundles(tuple(distinct.values())):
                file = summary.annotations_file if _in_annotations(finding.path) else summary.csv_file
                yield summary, replace(rule.complete(finding), file=file)
