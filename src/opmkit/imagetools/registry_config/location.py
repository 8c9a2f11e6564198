"""The repositories that are really asked, which need not be those that references name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RepositoryLocation:
    """A repository of a registry, and how it may be spoken to.

    ``insecure`` allows certificates that nobody vouches for, and plain HTTP where HTTPS is not spoken. ``blocked_by``
    names the file that forbids its use, if one does.
    """

    registry: str
    repository: str
    insecure: bool = False
    blocked_by: str = ""

    @property
    def name(self) -> str:
        """Registry and repository, as in references."""
        return f"{self.registry}/{self.repository}"
