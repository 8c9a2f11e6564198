"""The versions of bundles as drawings compare them, and the ranges that they are in.

That is semantic versioning's own order, in which build metadata does not count.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.fields import member
from opmkit.bundle.validation.versions import VersionRange, strict_version
from opmkit.index.catalog.blobs import PACKAGE
from opmkit.index.catalog.faults import Fault, Subject, refuse
from opmkit.index.graph.version import Identifiers, precedence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opmkit.index.catalog.blobs import BundleBlob

Key: TypeAlias = tuple[int, int, int, tuple[bool, Identifiers]]
"""What versions are compared by."""

_COMPARES: dict[str, Callable[[Key, Key], bool]] = {
    "=": operator.eq,
    "!": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def version_key(version: str) -> Key:
    """What a version is compared by; ValueError, with the reason, if it is no strict semantic version."""
    return precedence(str(strict_version(version)))[:4]


LOWEST = version_key("0.0.0")
"""What bundles that a catalog does not have are compared by."""


def version_text(bundle: BundleBlob) -> str:
    """The version that a bundle says it has; ValueError, with the reason, if it does not say so exactly once."""
    values = list(bundle.values(PACKAGE))
    if len(values) != 1:
        raise ValueError(f"it has {len(values)} properties of type {PACKAGE}, not exactly one")
    version = member(values[0], "version") if isinstance(values[0], dict) else None
    if not isinstance(version, str):
        raise ValueError(f"its property of type {PACKAGE} has no version")
    return version


def version_keys(bundles: Iterable[BundleBlob]) -> dict[str, Key]:
    """What the bundles are compared by, by their names; of several of one name the first counts.

    Raises:
        InvalidCatalog: with all bundles that have no version.
    """
    keys: dict[str, Key] = {}
    faults: list[Fault] = []
    for bundle in bundles:
        if bundle.name not in keys:
            try:
                keys[bundle.name] = version_key(version_text(bundle))
            except ValueError as error:
                told = f"it has no version that can be compared: {error}"
                faults.append(Fault(bundle.place, told, Subject(bundle.package, bundle=bundle.name)))
    refuse(faults)
    return keys


def within(text: str) -> Callable[[Key], bool]:
    """Whether versions are in a range; ValueError, with the reason, if it is none."""
    parsed = VersionRange.parse(text)
    if not parsed.is_complete:
        raise ValueError("one of its alternatives names no version")
    alternatives = [
        [(_COMPARES[sign], precedence(str(bound))[:4]) for sign, bound in terms] for terms in parsed.alternatives
    ]
    return lambda key: any(all(holds(key, bound) for holds, bound in terms) for terms in alternatives)
