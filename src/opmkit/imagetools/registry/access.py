"""Which rights on which repository a request needs: the scopes of the distribution token specification."""

from __future__ import annotations

from dataclasses import dataclass, replace

PULL = frozenset({"pull"})
PUSH = frozenset({"pull", "push"})


@dataclass(frozen=True, slots=True)
class Access:
    """Rights on ``registry/repository``, and the right to pull from ``mount_from`` of the same registry."""

    registry: str
    repository: str
    actions: frozenset[str] = PULL
    mount_from: str = ""

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    def mounting(self, repository: str) -> Access:
        """The same, and pulling from ``repository``."""
        return replace(self, mount_from=repository)

    def covers(self, other: Access) -> bool:
        """Whether whoever has these rights has the other ones."""
        same = (self.registry, self.repository) == (other.registry, other.repository)
        return same and self.actions >= other.actions and other.mount_from in ("", self.mount_from)

    def scopes(self) -> tuple[str, ...]:
        """``repository:NAME:pull,push``, one for each repository."""
        own = f"repository:{self.repository}:{','.join(sorted(self.actions))}"
        return (own, f"repository:{self.mount_from}:pull") if self.mount_from else (own,)
