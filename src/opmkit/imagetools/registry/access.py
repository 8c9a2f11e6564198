"""Access rights on repositories, as scopes of the distribution token specification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from opmkit.imagetools.registry_config import RepositoryLocation

PULL = frozenset({"pull"})
PUSH = frozenset({"pull", "push"})
DELETE = frozenset({"pull", "delete"})


class Access(Struct, frozen=True):
    """Rights on a repository, and optionally the right to pull from ``mount_from`` of the same registry.

    Without a repository, the right is that to list the repositories of the registry.
    """

    location: RepositoryLocation
    actions: frozenset[str] = PULL
    mount_from: str = ""

    @property
    def registry(self) -> str:
        """The registry's name in references."""
        return self.location.registry

    @property
    def repository(self) -> str:
        """The repository's name in its registry."""
        return self.location.repository

    @property
    def name(self) -> str:
        """Registry and repository, separated by a slash."""
        return self.location.name

    def with_mount_from(self, repository: str) -> Access:
        """Return a copy with the right to pull from ``repository``."""
        return replace(self, mount_from=repository)

    def covers(self, other: Access) -> bool:
        """Return whether these rights include the other ones."""
        if self.location != other.location:
            return False
        return self.actions >= other.actions and other.mount_from in ("", self.mount_from)

    def scopes(self) -> tuple[str, ...]:
        """Return one scope per repository, such as ``repository:NAME:pull,push``, or that of the list of them."""
        if not self.repository:
            return ("registry:catalog:*",)
        scope = f"repository:{self.repository}:{','.join(sorted(self.actions))}"
        return (scope, f"repository:{self.mount_from}:pull") if self.mount_from else (scope,)
