"""Which rights on which repository a request needs: the scopes of the distribution token specification."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opmkit.imagetools.registry_config import RepositoryLocation

PULL = frozenset({"pull"})
PUSH = frozenset({"pull", "push"})


@dataclass(frozen=True, slots=True)
class Access:
    """Rights on the repository ``place``, and the right to pull from ``mount_from`` of the same registry."""

    place: RepositoryLocation
    actions: frozenset[str] = PULL
    mount_from: str = ""

    @property
    def registry(self) -> str:
        """The registry's name in references."""
        return self.place.registry

    @property
    def repository(self) -> str:
        """The repository's name in its registry."""
        return self.place.repository

    @property
    def name(self) -> str:
        """Registry and repository."""
        return self.place.name

    def mounting(self, repository: str) -> Access:
        """The same, and pulling from ``repository``."""
        return replace(self, mount_from=repository)

    def covers(self, other: Access) -> bool:
        """Whether whoever has these rights has the other ones."""
        same = self.place == other.place
        return same and self.actions >= other.actions and other.mount_from in ("", self.mount_from)

    def scopes(self) -> tuple[str, ...]:
        """``repository:NAME:pull,push``, one for each repository."""
        own = f"repository:{self.place.repository}:{','.join(sorted(self.actions))}"
        return (own, f"repository:{self.mount_from}:pull") if self.mount_from else (own,)
