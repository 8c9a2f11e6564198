"""The releases of Go opm whose results can be matched, and the changes between them that affect results."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from opmkit.index.errors import CatalogError

OLDEST_MINOR, NEWEST_MINOR = 26, 73
"""Minor versions of the first and the last release of Go opm 1.x that can be matched."""

_NEWEST_NAME = "newest"
_LAST_PATCHES = {26: 5, 27: 1, 30: 1, 43: 1}
_RELEASE = re.compile(r"(?:opm-|v)?1\.(\d{1,3})(?:\.\d{1,3})?")


class ReleaseChange(Enum):
    """A change of the results of Go opm: the minor version of the first release with it, and its description.

    A change that was reverted is followed by another one that restores the earlier results.
    """

    DEFAULT_CHANNEL_PREFERENCE = (27, "Semver templates have `defaultChannelTypePreference`.")
    OPTIONAL_BASE_IMAGE = (27, "Composite templates do not require `destination.baseImage`.")
    CSV_METADATA = (28, "Bundles with an image are rendered with `olm.csv.metadata` instead of their objects.")
    SORTED_CONTENT = (28, "Objects of bundles, and keys in custom documents and in values of properties, are sorted.")
    MIGRATE = (30, "`render --migrate`; `migrate` reads file-based catalogs, and always migrates.")
    DEPRECATIONS = (32, "`olm.deprecations` is validated, and written after all other documents of a package.")
    COLORED_DEPRECATIONS = (34, "Graphs mark deprecated packages, channels and bundles.")
    SKIPS_BY_CHANNEL = (37, "Semver templates skip only the patch versions of the same minor version.")
    BASIC_TEMPLATE_SCHEMA = (44, "Basic templates have the schema `olm.template.basic`.")
    TWO_STAGES = (44, "Dockerfiles build the cache in a separate stage.")
    BUNDLE_OBJECTS = (
        46,
        "Bundles are rendered with all their objects again, and migrated by `--migrate-level`.",
    )
    NO_SKIPPED_REPLACES = (57, "Semver templates do not skip the bundle that an entry replaces.")
    V0_SEMANTICS = (57, "Graphs sort entries by version, and can mark edges that OLM v0 ignores.")
    CHAIN_ENDS_AT_SKIPPED = (58, "The chain of `replaces` ends at a skipped entry.")
    SKIPS_BY_MAJOR_VERSION = (61, "Semver templates skip all lower versions of the same major version again.")
    RELEASES = (
        62,
        "`olm.package` has a `release`, derived from the version of bundles that substitute others.",
    )
    CHANNEL_HEAD_DETAILS = (65, "Semver templates take icon and description of the package from the channel head.")
    NO_DERIVED_RELEASES = (67, "`release` is only taken from the bundle, and no longer derived.")
    COMPLETE_MIGRATION = (68, "`migrate` writes custom documents and deprecations as well.")

    @property
    def minor(self) -> int:
        """Return the minor version of the first release with the change."""
        return self.value[0]

    @property
    def description(self) -> str:
        """Return the description, a sentence in Markdown."""
        return self.value[1]


@dataclass(frozen=True, order=True, slots=True)
class CatalogCompat:
    """A minor release 1.``minor`` of Go opm, whose results are matched."""

    minor: int

    NEWEST: ClassVar[CatalogCompat]
    OPM_1_26: ClassVar[CatalogCompat]

    @classmethod
    def parse(cls, text: str) -> CatalogCompat:
        """Parse ``newest`` or a version such as ``1.39``, ``v1.39.0`` or ``opm-1.39``; the patch version is ignored.

        Raises:
            CatalogError: The text is not a version, or the results of the release are unknown.
        """
        if text == _NEWEST_NAME:
            return cls.NEWEST
        match = _RELEASE.fullmatch(text)
        if not match or not OLDEST_MINOR <= int(match[1]) <= NEWEST_MINOR:
            raise CatalogError(
                f'unknown release of Go opm "{text}"',
                hint=f"give a release from 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}, or {_NEWEST_NAME}",
            )
        return cls(int(match[1]))

    def has(self, change: ReleaseChange) -> bool:
        """Return whether the release contains a change."""
        return self.minor >= change.minor

    def has_rule(self, since: str) -> bool:
        """Return whether the release contains a rule, given the first release with it; "" for a rule of all."""
        return not since or self >= CatalogCompat.parse(since)

    @property
    def version(self) -> str:
        """Return the version of the last patch release, such as ``v1.26.5``."""
        return f"v1.{self.minor}.{_LAST_PATCHES.get(self.minor, 0)}"

    def __str__(self) -> str:
        """Return ``newest``, or the version without patch."""
        return _NEWEST_NAME if self.minor == NEWEST_MINOR else f"1.{self.minor}"


CatalogCompat.NEWEST = CatalogCompat(NEWEST_MINOR)
CatalogCompat.OPM_1_26 = CatalogCompat(OLDEST_MINOR)
