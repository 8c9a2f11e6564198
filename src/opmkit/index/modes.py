"""Modes of changing and installing indexes."""

from __future__ import annotations

from enum import StrEnum

from opmkit.index.errors import CatalogError


class OnConflict(StrEnum):
    """Action if another writer moved a tag during the run."""

    FAIL = "fail"
    REBASE = "rebase"
    OVERWRITE = "overwrite"


class InstallerPermissions(StrEnum):
    """Permissions of the ServiceAccount that OLM v1 installs a package with."""

    BUNDLE = "bundle"
    CLUSTER_ADMIN = "cluster-admin"
    NONE = "none"


class OlmVersion(StrEnum):
    """Major versions of OLM."""

    V0 = "v0"
    V1 = "v1"


class UpdateMode(StrEnum):
    """Source of the update graph when bundles are added: their declared edges, or their versions."""

    REPLACES = "replaces"
    SEMVER = "semver"
    SEMVER_SKIPPATCH = "semver-skippatch"

    @classmethod
    def parse(cls, text: str) -> UpdateMode:
        """Parse a mode, ignoring case.

        Raises:
            CatalogError: The mode is unknown.
        """
        try:
            return cls(text.lower())
        except ValueError:
            raise CatalogError(f'invalid update mode "{text}"', hint=f"use one of: {', '.join(cls)}") from None
