"""Lifecycles of operators: documents with the schema ``io.openshift.operators.lifecycles.v1alpha1``.

OpenShift's console shows from them how long a version of an operator is supported, and on which versions of OpenShift
it works (openshift/enhancements, ``enhancements/olm/lifecycle-and-compatibility.md``).
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import date, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.documents.lenient import items, mapping, text
from opmkit.index.fbc.findings import CatalogFinding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from opmkit.index.fbc.blobs import OtherBlob

LIFECYCLES = "io.openshift.operators.lifecycles.v1alpha1"
OPENSHIFT = "openshift"
"""Name of OpenShift among the platforms of a version."""
_MINOR = re.compile(r"(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


class VersionLifecycle(Struct, frozen=True):
    """The lifecycle of a minor version of an operator.

    Attributes:
        ends: The last day of its last phase, None if it has no valid phase.
        platforms: The versions of OpenShift on which it works, None if they are unknown.
    """

    ends: date | None
    platforms: frozenset[OpenShiftVersion] | None


def read_lifecycles(blobs: Collection[OtherBlob], package: str) -> Mapping[str, VersionLifecycle]:
    """Return the lifecycles of a package by minor version (``1.4``); invalid parts are ignored.

    There are none if the catalog has several documents of the package, which OpenShift's console ignores as well.
    """
    found = [blob for blob in blobs if blob.schema == LIFECYCLES and blob.package == package]
    if len(found) != 1:
        return {}
    versions = map(mapping, items(found[0].content.get("versions")))
    return {text(version.get("name")): _lifecycle(version) for version in versions}


def _lifecycle(version: Mapping[str, Any]) -> VersionLifecycle:
    ends = [end for phase in map(mapping, items(version.get("phases"))) if (end := _date(phase.get("endDate")))]
    platforms = None
    for platform in map(mapping, items(version.get("platformCompatibility"))):
        if platform.get("name") == OPENSHIFT:
            names = [name for name in items(platform.get("versions")) if isinstance(name, str)]
            platforms = frozenset(OpenShiftVersion.parse(name) for name in names if _MINOR.fullmatch(name))
    return VersionLifecycle(max(ends, default=None), platforms)


def check_lifecycles(blobs: Collection[OtherBlob], packages: Collection[str]) -> Iterator[CatalogFinding]:
    """Yield what the schema forbids: wrong values, gaps between phases, and several documents of a package.

    Args:
        blobs: The blobs of a catalog with other schemas.
        packages: Names of its packages.
    """
    documents = [blob for blob in blobs if blob.schema == LIFECYCLES]
    counts = Counter(blob.package for blob in documents)
    for blob in documents:
        for message, hint in _problems(blob, packages):
            yield CatalogFinding(message, hint=hint, rule="FBC-LIFECYCLE", package=blob.package).at(blob.location)
        if counts[blob.package] > 1:
            yield CatalogFinding(
                f"the package has {counts[blob.package]} lifecycle documents, so that consoles show none",
                hint="Keep one document for each package.",
                rule="FBC-LIFECYCLE",
                package=blob.package,
            ).at(blob.location)


def _problems(blob: OtherBlob, packages: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield problems of a document, each with a hint."""
    if blob.package not in packages:
        yield "lifecycle of a package that the catalog does not have", "Name a package of the catalog."
    unknown = sorted(blob.content.keys() - {"schema", "package", "versions"})
    if unknown:
        yield f"lifecycle: unknown field {unknown[0]}", "Remove it: consoles reject the document."
    versions = [mapping(version) for version in items(blob.content.get("versions"))]
    if not versions:
        yield "lifecycle without versions", "List at least one minor version."
    for version in versions:
        name = version.get("name")
        if not isinstance(name, str) or not _MINOR.fullmatch(name):
            yield f"lifecycle: version {name!r} is not MAJOR.MINOR", 'Write a minor version as text, such as "1.4".'
        for message, hint in (*_phase_problems(version), *_platform_problems(version)):
            yield f"lifecycle of version {name}: {message}", hint
    names = Counter(text(version.get("name")) for version in versions)
    for name, count in names.items():
        if count > 1:
            yield f"lifecycle: version {name} is listed {count} times", "List each version once."


def _phase_problems(version: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    phases = [mapping(phase) for phase in items(version.get("phases"))]
    if not phases:
        yield "it has no phases", "List at least one phase with its first and last day."
    periods: list[tuple[str, date, date]] = []
    for phase in phases:
        name, start, end = text(phase.get("name")), _date(phase.get("startDate")), _date(phase.get("endDate"))
        if not name or start is None or end is None:
            yield f"phase {name or 'without a name'}: invalid name or dates", 'Write dates as text, "YYYY-MM-DD".'
        elif end <= start:
            yield f"phase {name} ends on {end}, not after {start}", "Correct the dates."
        else:
            periods.append((name, start, end))
    for (before, _, end), (after, start, _) in pairwise(periods):
        if start != end + timedelta(days=1):
            yield f"phase {after} begins on {start}, but {before} ends on {end}", "Let it begin on the next day."


def _platform_problems(version: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for platform in map(mapping, items(version.get("platformCompatibility"))):
        names = items(platform.get("versions"))
        if not text(platform.get("name")) or not names:
            yield "platform without a name or versions", "Name the platform and its versions."
        for name in names:
            if not isinstance(name, str) or not _MINOR.fullmatch(name):
                yield f"platform version {name!r} is not MAJOR.MINOR", 'Write it as text, such as "4.18".'


def _date(value: object) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) and _DATE.fullmatch(value) else None
    except ValueError:
        return None
