"""Choices of how an index is updated."""

from __future__ import annotations

from enum import StrEnum

from opmkit.index.errors import CatalogError


class OnConflict(StrEnum):
    """What to do where another writer has moved a tag during the run."""

    FAIL = "fail"
    REBASE = "rebase"
    OVERWRITE = "overwrite"


class UpdateMode(StrEnum):
    """How the update graph of a package comes about when a bundle is added."""

    REPLACES = "replaces"
    SEMVER = "semver"
    SEMVER_SKIPPATCH = "semver-skippatch"

    @classmethod
    def parse(cls, text: str) -> UpdateMode:
        """The mode of this name, whatever the case of its letters.

        Raises:
            CatalogError: there is no such mode.
        """
        try:
            return cls(text.lower())
        except ValueError:
            raise CatalogError(f'invalid update mode "{text}"', advice=f"Use one of: {', '.join(cls)}.") from None
