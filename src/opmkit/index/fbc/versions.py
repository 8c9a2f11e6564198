"""Version keys of bundles and ranges of them, for graphs and templates.

Keys follow the precedence of semantic versioning (https://semver.org/#spec-item-11), which ignores build metadata.
"""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.fields import member
from opmkit.bundle.versions import VersionRange, strict_version
from opmkit.index.fbc.blobs import PACKAGE
from opmkit.index.fbc.findings import CatalogFinding, raise_findings
from opmkit.index.graph.version import Identifiers, precedence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opmkit.index.fbc.blobs import BundleBlob

VersionKey: TypeAlias = tuple[int, int, int, tuple[bool, Identifiers]]
"""A sort key of a version."""

_OPERATORS: dict[str, Callable[[VersionKey, VersionKey], bool]] = {
    "=": operator.eq,
    "!": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def version_key(version: str) -> VersionKey:
    """Return the sort key of a version.

    Raises:
        ValueError: it is not a semantic version.
    """
    return precedence(str(strict_version(version)))[:4]


MIN_VERSION_KEY = version_key("0.0.0")
"""The key of bundles that the catalog does not contain."""


def version_text(bundle: BundleBlob) -> str:
    """Return the version of a bundle.

    Raises:
        ValueError: it does not have exactly one property with a version.
    """
    values = list(bundle.property_values(PACKAGE))
    if len(values) != 1:
        raise ValueError(f"{len(values)} properties of type {PACKAGE} instead of one")
    version = member(values[0], "version") if isinstance(values[0], dict) else None
    if not isinstance(version, str):
        raise ValueError(f"property of type {PACKAGE} without a version")
    return version


def version_keys(bundles: Iterable[BundleBlob], *, lenient: bool = False) -> dict[str, VersionKey]:
    """Return the version keys of bundles by name; of several bundles with one name the first is used.

    Args:
        bundles: the bundles.
        lenient: whether to omit bundles without a valid version.

    Raises:
        InvalidCatalog: bundles have no valid version; the error lists all of them.
    """
    keys: dict[str, VersionKey] = {}
    findings: list[CatalogFinding] = []
    for bundle in bundles:
        if bundle.name not in keys:
            try:
                keys[bundle.name] = version_key(version_text(bundle))
            except ValueError as error:
                finding = CatalogFinding(f"invalid version: {error}", package=bundle.package, bundle=bundle.name)
                findings.append(finding.at(bundle.location))
    if not lenient:
        raise_findings(findings)
    return keys


@dataclass(frozen=True, slots=True)
class VersionKeyRange:
    """A version range on keys: alternatives, each a conjunction of an operator and a bound."""

    alternatives: tuple[tuple[tuple[str, VersionKey], ...], ...]

    @classmethod
    def parse(cls, text: str) -> VersionKeyRange:
        """Parse a range.

        Raises:
            ValueError: the range is invalid.
        """
        parsed = VersionRange.parse(text)
        if not parsed.is_complete:
            raise ValueError("an alternative is empty")
        terms = (tuple((sign, precedence(str(bound))[:4]) for sign, bound in terms) for terms in parsed.alternatives)
        return cls(tuple(terms))

    def __contains__(self, key: VersionKey) -> bool:
        """Return whether a version is in the range."""
        return any(all(_OPERATORS[sign](key, bound) for sign, bound in terms) for terms in self.alternatives)

    def spans(self, keys: Sequence[VersionKey]) -> list[tuple[int, int]]:
        """Return the half-open index spans of a sorted list that are in the range."""
        spans = [span for terms in self.alternatives for span in _spans(terms, keys)]
        merged: list[tuple[int, int]] = []
        for start, end in sorted(spans):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged


def _spans(terms: Iterable[tuple[str, VersionKey]], keys: Sequence[VersionKey]) -> list[tuple[int, int]]:
    """Return the spans in which all terms hold."""
    spans = [(0, len(keys))]
    for sign, bound in terms:
        first, last = bisect_left(keys, bound), bisect_right(keys, bound)
        parts = {
            "=": [(first, last)],
            "!": [(0, first), (last, len(keys))],
            "<": [(0, first)],
            "<=": [(0, last)],
            ">": [(last, len(keys))],
            ">=": [(first, len(keys))],
        }[sign]
        overlaps = [(max(start, low), min(end, high)) for start, end in spans for low, high in parts]
        spans = [(start, end) for start, end in overlaps if start < end]
    return spans
