"""Kubernetes objects for an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OlmManifests:
    """The Kubernetes objects that offer an index in a cluster, and install a package from it.

    Attributes:
        objects: The objects in the order of applying them.
        warnings: Parts that could not be checked, and reasons why OLM may not install the package.
    """

    objects: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the objects as a Kubernetes list."""
        return {"apiVersion": "v1", "kind": "List", "items": list(self.objects)}
