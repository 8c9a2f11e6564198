"""What is wrong with bundles only beside each other: those of a package, a registry, a catalog.

Of each bundle a summary is enough, which is small, so that ten thousand of them are at hand at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding
from opmkit.bundle.validation.csv_view import Csv
from opmkit.bundle.validation.rule import OURS, Rule
from opmkit.bundle.versions import tolerant_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from semver import Version

    from opmkit.bundle.finding import Severity
    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.rule import Fault

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


Found: TypeAlias = "tuple[Summary, Fault]"
"""The bundle that a fault is told of, and the fault."""


def _nothing(_: object) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class AcrossRule(Rule):
    """A rule over many bundles: ``find`` looks at the summaries of all. In a single bundle it finds nothing."""

    find: Callable[[Sequence[Summary]], Iterable[Found]] = _nothing


def across_rule(
    rule_id: str, severity: Severity, summary: str, *, remedy: str, bad: str = "", good: str = ""
) -> Callable[[Callable[[Sequence[Summary]], Iterable[Found]]], AcrossRule]:
    """Make a rule of a function over summaries; its docstring explains it at length."""

    def register(find: Callable[[Sequence[Summary]], Iterable[Found]]) -> AcrossRule:
        told = (find.__doc__ or "").strip()
        return AcrossRule(rule_id, VALIDATOR, severity, summary, remedy, _nothing, told, bad, good, OURS, find)

    return register


def judge_across(summaries: Iterable[Summary], rules: Iterable[Rule]) -> Iterator[tuple[Summary, Finding]]:
    """What those of the rules that are over many bundles find, each with the bundle that it is told of."""
    different: dict[str, Summary] = {}
    for number, summary in enumerate(summaries):
        different.setdefault(summary.digest or f"#{number}", summary)
    for rule in rules:
        if isinstance(rule, AcrossRule):
            for summary, fault in rule.find(tuple(different.values())):
                severity, remedy = fault.severity or rule.severity, fault.remedy or rule.remedy
                yield summary, Finding(rule.id, rule.validator, severity, fault.message, remedy, fault.subject)
