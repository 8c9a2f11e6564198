"""Identifiers of APIs: group, version and kind."""

from __future__ import annotations

from typing import NamedTuple


class Gvk(NamedTuple):
    """Group, version and kind of an API; the group is "" for the core group."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        """Return the text that Kubernetes tools print: ``example.com/v1, Kind=Demo``."""
        return f"{self.group}/{self.version}, Kind={self.kind}"

    @classmethod
    def parse(cls, api_version: str, kind: str) -> Gvk | None:
        """Return the API of an object, or None if ``api_version`` has more than one slash."""
        if api_version.count("/") > 1:
            return None
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    @property
    def group_kind(self) -> tuple[str, str]:
        """Group and kind."""
        return self.group, self.kind


def crd_group(name: str) -> str | None:
    """Return the group in the name of a CRD, which is ``PLURAL.GROUP``, or None if there is none."""
    _, dot, group = name.partition(".")
    return group if dot else None
