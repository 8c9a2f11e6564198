"""What is wrong with bundles only beside each other: those of a package, a registry, a catalog.

Of each bundle a summary is enough, which is small, so that ten thousand of them are at hand at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.csv_view import Csv
from opmkit.bundle.validation.rule import Rule
from opmkit.bundle.versions import tolerant_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from semver import Version

    from opmkit.bundle.finding import Severity
    from opmkit.bundle.validation.bundle_view import BundleView

VALIDATOR = "across"


@dataclass(frozen=True, slots=True)
class Summary:
    """What counts of a bundle beside others. All fields are texts or tuples of texts, "" or empty where not there.

    ``target`` is what the bundle was named by, ``digest`` that of its image: bundles of one digest are the same.
    """

    target: str
    package: str
    name: str
    version: str = ""
    release: str = ""
    channels: tuple[str, ...] = ()
    default_channel: str = ""
    replaces: str = ""
    skips: tuple[str, ...] = ()
    owned_crds: tuple[str, ...] = ()
    digest: str = ""

    @classmethod
    def of(cls, bundle: BundleView, *, digest: str = "") -> Summary | None:
        """The summary of a bundle; None if it has no ClusterServiceVersion with a name."""
        csv = Csv.from_bundle(bundle)
        if csv is None or not csv.name:
            return None
        channels = bundle.annotations.get(labels.CHANNELS, "").split(",")
        return cls(
            bundle.name,
            bundle.annotations.get(labels.PACKAGE, ""),
            csv.name,
            csv.spec.get("version", ""),
            csv.spec.get("release", ""),
            tuple(channel.strip() for channel in channels if channel.strip()),
            bundle.annotations.get(labels.DEFAULT_CHANNEL, ""),
            csv.spec.get("replaces", ""),
            tuple(csv.spec.get("skips", ())),
            tuple(dict.fromkeys(name for _, _, name in csv.owned_crds if name)),
            digest,
        )

    @property
    def order(self) -> Version:
        """Its version to compare, 0.0.0 where it has none that can be read."""
        return _order(self.version)


@lru_cache(maxsize=32_768)
def _order(version: str) -> Version:
    try:
        return tolerant_version(version)
    except ValueError:
        return tolerant_version("0")


BundleFinding: TypeAlias = tuple[Summary, Finding]
"""A bundle and a finding about it."""

CrossBundleCheck: TypeAlias = "Callable[[Sequence[Summary]], Iterable[BundleFinding]]"


def _no_findings(_: object) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class CrossBundleRule(Rule):
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
            (check.__doc__ or "").strip(),
            bad,
            good,
            OPMKIT_ONLY,
            check_bundles=check,
        )

    return register


def run_cross_bundle_rules(summaries: Iterable[Summary], rules: Iterable[Rule]) -> Iterator[BundleFinding]:
    """Yield the findings of the cross-bundle rules among ``rules``, each with its bundle."""
    distinct: dict[str, Summary] = {}
    for number, summary in enumerate(summaries):
        distinct.setdefault(summary.digest or f"#{number}", summary)
    for rule in rules:
        if isinstance(rule, CrossBundleRule):
            for summary, finding in rule.check_bundles(tuple(distinct.values())):
                yield summary, rule.complete(finding)
