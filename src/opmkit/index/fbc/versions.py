"""The versions of bundles as drawings compare them, and the ranges that they are in.

That is semantic versioning's own order, in which build metadata does not count.
"""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.fields import member
from opmkit.bundle.versions import VersionRange, strict_version
from opmkit.index.fbc.blobs import PACKAGE
from opmkit.index.fbc.findings import CatalogFinding, Subject, raise_findings
from opmkit.index.graph.version import Identifiers, precedence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opmkit.index.fbc.blobs import BundleBlob

VersionKey: TypeAlias = tuple[int, int, int, tuple[bool, Identifiers]]
"""What versions are compared by."""

_COMPARES: dict[str, Callable[[VersionKey, VersionKey], bool]] = {
    "=": operator.eq,
    "!": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def version_key(version: str) -> VersionKey:
    """What a version is compared by; ValueError, with the reason, if it is no strict semantic version."""
    return precedence(str(strict_version(version)))[:4]


MIN_VERSION_KEY = version_key("0.0.0")
"""What bundles that a catalog does not have are compared by."""


def version_text(bundle: BundleBlob) -> str:
    """The version that a bundle says it has; ValueError, with the reason, if it does not say so exactly once."""
    values = list(bundle.property_values(PACKAGE))
    if len(values) != 1:
        raise ValueError(f"it has {len(values)} properties of type {PACKAGE}, not exactly one")
    version = member(values[0], "version") if isinstance(values[0], dict) else None
    if not isinstance(version, str):
        raise ValueError(f"its property of type {PACKAGE} has no version")
    return version


def version_keys(bundles: Iterable[BundleBlob], *, lenient: bool = False) -> dict[str, VersionKey]:
    """What the bundles are compared by, by their names; of several of one name the first counts.

    Raises:
        InvalidCatalog: with all bundles that have no version; where it is ``lenient``, they are left out instead.
    """
    keys: dict[str, VersionKey] = {}
    faults: list[CatalogFinding] = []
    for bundle in bundles:
        if bundle.name not in keys:
            try:
                keys[bundle.name] = version_key(version_text(bundle))
            except ValueError as error:
                told = f"it has no version that can be compared: {error}"
                faults.append(CatalogFinding(bundle.location, told, Subject(bundle.package, bundle=bundle.name)))
    if not lenient:
        raise_findings(faults)
    return keys


@dataclass(frozen=True, slots=True)
class VersionKeyRange:
    """A range of versions: alternatives of terms, each an operator with what it compares to."""

    alternatives: tuple[tuple[tuple[str, VersionKey], ...], ...]

    @classmethod
    def parse(cls, text: str) -> VersionKeyRange:
        """Read a range; ValueError, with the reason, if it is none."""
        parsed = VersionRange.parse(text)
        if not parsed.is_complete:
            raise ValueError("one of its alternatives names no version")
        terms = (tuple((sign, precedence(str(bound))[:4]) for sign, bound in terms) for terms in parsed.alternatives)
        return cls(tuple(terms))

    def __contains__(self, key: VersionKey) -> bool:
        """Whether a version is in it."""
        return any(all(_COMPARES[sign](key, bound) for sign, bound in terms) for terms in self.alternatives)

    def spans(self, keys: Sequence[VersionKey]) -> list[tuple[int, int]]:
        """Where, in an ascending list, those are that are in it: from one position, and up to but not with another."""
        found = [span for terms in self.alternatives for span in _spans(terms, keys)]
        merged: list[tuple[int, int]] = []
        for start, end in sorted(found):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged


def _spans(terms: Iterable[tuple[str, VersionKey]], keys: Sequence[VersionKey]) -> list[tuple[int, int]]:
    """The spans in which all terms hold."""
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
        both = [(max(start, low), min(end, high)) for start, end in spans for low, high in parts]
        spans = [(start, end) for start, end in both if start < end]
    return spans
