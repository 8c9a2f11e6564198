"""The order of bundle versions: semantic versioning 2.0.0, and build metadata where all else is equal."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from semver import Version

from opmkit.index.errors import GraphError

_LARGEST_NUMBER = 2**64 - 1
_UNVERSIONED = "0.0.0-z"

Identifiers: TypeAlias = tuple[tuple[int, int, str], ...]
Precedence: TypeAlias = tuple[int, int, int, tuple[bool, Identifiers], Identifiers]


@lru_cache(maxsize=4096)
def precedence(version: str) -> Precedence:
    """A key that sorts versions as the heads of channels are chosen.

    That is semver's own order; of two versions that differ in their build metadata alone, the one without is lower, and
    otherwise the metadata compares as a prerelease would. A bundle without a version sorts as ``0.0.0-z``.

    Raises:
        GraphError: no strict semantic version (``v1.0.0``, ``1.0`` and ``01.2.3`` are none), or a number over 64 bits.
    """
    try:
        parsed = Version.parse(version or _UNVERSIONED)
    except ValueError as error:
        raise _invalid(version, "it is not a semantic version") from error
    release = not parsed.prerelease
    prerelease = _identifiers(parsed.prerelease)
    if max(parsed.major, parsed.minor, parsed.patch, *(number for _, number, _ in prerelease)) > _LARGEST_NUMBER:
        raise _invalid(version, "a number in it does not fit in 64 bits")
    return parsed.major, parsed.minor, parsed.patch, (release, prerelease), _identifiers(parsed.build)


def _identifiers(text: str | None) -> Identifiers:
    """Dot-separated identifiers as semver compares them: numbers before words, and a prefix before what it begins."""
    parts = text.split(".") if text else []
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)


def _invalid(version: str, reason: str) -> GraphError:
    return GraphError(
        f"version {version!r} can't be ordered: {reason}",
        advice="Give the bundle's ClusterServiceVersion a version of the form MAJOR.MINOR.PATCH, without a leading v.",
    )
