"""Version ranges with the grammar of npm, by which Red Hat's pipelines read ``olm.skipRange``.

OLM's own grammar is in :mod:`opmkit.bundle.versions`. They differ in prereleases, which a range of npm only contains if
a bound has the same major, minor and patch version, and in ``^``, ``~``, partial versions and spaces.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct
from semver import Version

from opmkit.bundle.versions import strict_version, version_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opmkit.bundle.versions import VersionKey

_NUMBER = r"(?:[xX*]|0|[1-9][0-9]{0,18})"
_COMPARATOR = re.compile(
    rf"v?(?P<sign>[<>]=?|[=^~]?)(?P<numbers>{_NUMBER}(?:\.{_NUMBER}){{0,2}})"
    r"(?:-(?P<prerelease>[a-zA-Z0-9.-]*))?(?:\+(?P<build>[a-zA-Z0-9.-]*))?"
)
_HYPHEN = " - "
_ORDER: Mapping[str, Callable[[VersionKey, VersionKey], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}


class Bound(NamedTuple):
    """A comparison with a version; ``any_prerelease`` is whether prereleases of other versions can match."""

    sign: str
    version: Version
    any_prerelease: bool = False

    def matches(self, version: Version) -> bool:
        """Return whether a version satisfies the comparison."""
        if version.prerelease and not self.any_prerelease and _numbers(version) != _numbers(self.version):
            return False
        if self.sign == "=" and self.version.build and version.build != self.version.build:
            return False
        return _ORDER[self.sign](version_key(version), version_key(self.version))


Bounds: TypeAlias = tuple[Bound, ...]


class NpmRange(Struct, frozen=True):
    """A version range. A version is in it if it satisfies all bounds of an alternative."""

    alternatives: tuple[Bounds, ...]

    @classmethod
    def parse(cls, text: str) -> NpmRange:
        """Parse a range such as ``>=1.0.0 <2.0.0 || ^3.1``.

        Raises:
            ValueError: With the reason, for an invalid range.
        """
        alternatives: list[Bounds] = []
        for group in text.split("||"):
            bounds = _parse_group(group.strip() or ">=0.0.0")
            if any(bound.version.prerelease for bound in bounds):
                alternatives.append(_prerelease_bounds(bounds))
            alternatives.append(tuple(bound._replace(version=_release(bound.version)) for bound in bounds))
        return cls(tuple(alternatives))

    def __contains__(self, version: Version) -> bool:
        return any(all(bound.matches(version) for bound in bounds) for bounds in self.alternatives)


def _parse_group(group: str) -> list[Bound]:
    if _HYPHEN in group:
        first, last = group.split(_HYPHEN, 1)
        comparators = [f">={first}", f"<={last}"]
    else:
        comparators = group.split(" ")
    return [bound for comparator in comparators for bound in _parse_comparator(comparator)]


def _parse_comparator(text: str) -> list[Bound]:
    match = _COMPARATOR.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a comparison of versions such as >=1.0.0")
    sign, numbers = match["sign"] or "=", _known_numbers(match["numbers"])
    build = match["build"] if sign == "=" else ""
    if len(numbers) < 3 and (match["prerelease"] or build):
        raise ValueError(f"{text!r} has a prerelease or build, but not major, minor and patch")
    if not numbers:
        if sign not in ("=", ">="):
            raise ValueError(f"{text!r} compares with any version")
        return [Bound(">=", Version(0))]
    low = Version(*numbers)
    if match["prerelease"]:
        low = strict_version(f"{low}-{match['prerelease']}")
    if build:
        low = strict_version(f"{low}+{build}")
    return _bounds(sign, low, len(numbers))


def _known_numbers(text: str) -> list[int]:
    """Return the numbers before the first wildcard."""
    numbers: list[int] = []
    for part in text.split("."):
        if part in "xX*":
            break
        numbers.append(int(part))
    return numbers


def _bounds(sign: str, low: Version, known: int) -> list[Bound]:
    """Return the bounds of a comparison with a version of which the first ``known`` numbers are given."""
    if sign in ("^", "~") or (sign == "=" and known < 3):
        return [Bound(">=", low), Bound("<", _end(sign, low, known))]
    if known < 3 and sign in (">", "<="):
        return [Bound(">=" if sign == ">" else "<", _end(sign, low, known))]
    return [Bound(sign, low)]


def _end(sign: str, low: Version, known: int) -> Version:
    """Return the version at which a comparison with ``^``, ``~`` or a partial version ends."""
    first = _release(low)
    if sign == "~" and low.prerelease and not low.patch:  # the pipelines' library ends ~1.2.0-rc.1 at 1.2.0
        return first
    if known == 1 or (sign == "^" and low.major):
        return first.bump_major()
    if sign == "^" and known == 3 and not low.minor:
        return first.bump_patch()
    return first.bump_minor()


def _prerelease_bounds(bounds: list[Bound]) -> Bounds:
    """Return the bounds for prereleases: those with a prerelease, limited to versions with the same numbers."""
    found: list[Bound] = []
    for bound in bounds:
        version = bound.version
        if not version.prerelease:
            continue
        if bound.sign in (">", ">="):
            found.append(Bound("<", Version(version.major, version.minor, version.patch + 1), any_prerelease=True))
        elif bound.sign in ("<", "<="):
            found.append(Bound(">=", Version(version.major, version.minor, 0), any_prerelease=True))
        found.append(bound)
    return tuple(found)


def _release(version: Version) -> Version:
    """Return the version without prerelease, and a prerelease also without its build metadata."""
    return version.finalize_version() if version.prerelease else version


def _numbers(version: Version) -> tuple[int, int, int]:
    return version.major, version.minor, version.patch
