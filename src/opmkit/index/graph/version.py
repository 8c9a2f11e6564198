"""The order of bundle versions: semantic versioning 2.0.0, then build metadata."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from opmkit.bundle.versions import Identifiers, identifiers_key, strict_version, version_key
from opmkit.index.errors import GraphError

_UNVERSIONED = "0.0.0-z"

Precedence: TypeAlias = tuple[int, int, int, tuple[bool, Identifiers], Identifiers]


@lru_cache(maxsize=4096)
def precedence(version: str) -> Precedence:
    """Return a key that sorts versions as channel heads are chosen.

    Versions that only differ in build metadata are sorted by it, in the order of prereleases; no metadata is lowest.
    A bundle without a version sorts as ``0.0.0-z``.

    Raises:
        GraphError: For a version that is not a strict semantic version, such as ``v1.0.0``, ``1.0`` and ``01.2.3``.
    """
    try:
        parsed = strict_version(version or _UNVERSIONED)
    except ValueError as error:
        raise GraphError(
            f"cannot compare versions: {error}",
            hint="set the version of the ClusterServiceVersion to MAJOR.MINOR.PATCH, without a leading v",
        ) from error
    return *version_key(parsed), identifiers_key(parsed.build)
