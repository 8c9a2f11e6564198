"""OpenShift versions: the ranges for which bundles are released, and the Kubernetes versions that they contain."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple, Self

from msgspec import Struct

from opmkit.bundle.versions import tolerant_version

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSIONS = "com.redhat.openshift.versions"
"""Annotation and label with the OpenShift versions for which a bundle is released."""
MAX_VERSION = "olm.maxOpenShiftVersion"
"""Property with the last OpenShift version on which a bundle works."""

_VERSION = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:\.[0-9]{1,9})?", re.ASCII)
_LEGACY = ((4, 5), (4, 6))


class OpenShiftVersion(NamedTuple):
    """A minor version of OpenShift."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``v4.12`` or ``4.12``; a patch version is ignored.

        Raises:
            ValueError: With the reason, for an invalid version.
        """
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text.strip()!r} is not a version of the form v4.12")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of_kubernetes(cls, version: str) -> Self:
        """Return the first version that contains a version of Kubernetes, such as 1.25; 4.3 for older ones."""
        return cls(4, max(tolerant_version(version).minor - 13, 3))

    @property
    def kubernetes(self) -> tuple[int, int] | None:
        """The version of Kubernetes that it contains, None if it is unknown."""
        if self.major != 4:
            return None
        return 1, self.minor + (13 if self.minor > 2 else 12)

    @property
    def release(self) -> OpenShiftVersion:
        """The version as OLM compares it: 4.23 and 5.0 are the same release."""
        return OpenShiftVersion(5, 0) if self == (4, 23) else self

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def read_max_version(values: Sequence[object]) -> OpenShiftVersion | None:
    """Return the version that OLM reads in properties `MAX_VERSION`, also in a number; None without one.

    Raises:
        ValueError: OLM cannot read it, so that it lets the cluster be updated to no other minor version.
    """
    if not values:
        return None
    if len(values) > 1:
        raise ValueError("it is given more than once")
    text = values[0] if isinstance(values[0], str) else json.dumps(values[0])
    version = tolerant_version(text.strip('"'))
    if version.patch or version.prerelease:
        raise ValueError(f"{text!r} has more than major and minor version")
    return OpenShiftVersion(version.major, version.minor)


class OpenShiftRange(Struct, frozen=True):
    """The OpenShift versions from ``first`` to ``last``, without an end if ``last`` is None.

    ``unsupported_list`` is whether the range was written as a list of versions other than 4.5 and 4.6.
    """

    first: OpenShiftVersion
    last: OpenShiftVersion | None = None
    unsupported_list: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a minimum ``v4.12``, one version ``=v4.12``, a range ``v4.12-v4.15``, or the list ``v4.5,v4.6``.

        Raises:
            ValueError: With the reason, for an invalid range.
        """
        text = text.strip()
        if "-" in text:
            first, last = map(OpenShiftVersion.parse, text.split("-", 1))
            if last < first:
                raise ValueError(f"{text!r} ends before it begins")
            return cls(first, last)
        if text.startswith("="):
            only = OpenShiftVersion.parse(text.removeprefix("="))
            return cls(only, only)
        versions = sorted(map(OpenShiftVersion.parse, text.split(",")))
        return cls(versions[0], unsupported_list=len(versions) > 1 and tuple(versions) != _LEGACY)

    def reaches(self, version: OpenShiftVersion) -> bool:
        """Return whether the range contains this version or a later one."""
        return self.last is None or self.last >= version

    def __contains__(self, version: OpenShiftVersion) -> bool:
        return self.first <= version and self.reaches(version)

    def __str__(self) -> str:
        if self.last is None:
            return f"{self.first} and later"
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"
