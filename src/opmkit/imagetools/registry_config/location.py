"""Location of a repository after mirrors and prefixes of registries.conf are applied."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RepositoryLocation:
    """A repository of a registry to send requests to.

    Attributes:
        registry: Host, with an optional port.
        repository: The repository's name in the registry.
        insecure: Whether untrusted certificates, and plain HTTP as a fallback, are accepted.
        blocked_by: The settings file that blocks the repository, "" if none does.
    """

    registry: str
    repository: str
    insecure: bool = False
    blocked_by: str = ""

    @property
    def name(self) -> str:
        """Registry and repository, separated by a slash."""
        return f"{self.registry}/{self.repository}"
