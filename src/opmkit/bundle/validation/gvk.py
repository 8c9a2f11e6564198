"""Names of APIs: group, version and kind."""

from __future__ import annotations

from typing import NamedTuple


class Gvk(NamedTuple):
    """A group, "" for the core group, a version and a kind."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        """The text that Kubernetes tools use: ``example.com/v1, Kind=Demo``."""
        return f"{self.group}/{self.version}, Kind={self.kind}"

    @classmethod
    def of(cls, api_version: str, kind: str) -> Gvk | None:
        """The API of an object; None if its ``apiVersion`` has more than one slash."""
        if api_version.count("/") > 1:
            return None
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    @property
    def group_kind(self) -> tuple[str, str]:
        """Group and kind."""
        return self.group, self.kind


def crd_group(name: str) -> str | None:
    """The group in the name of a CRD, which is ``PLURAL.GROUP``; None if there is none."""
    _, dot, group = name.partition(".")
    return group if dot else None
