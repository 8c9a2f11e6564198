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
