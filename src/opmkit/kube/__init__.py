"""Client for Kubernetes clusters; knows nothing of operators.

`cluster` is the entry point. Only `api` and `transport` import the HTTP library, and only when a cluster is contacted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from opmkit.kube.api import ALL_NAMESPACES, Object, Resource
    from opmkit.kube.cluster import Cluster, Event
    from opmkit.kube.errors import ClusterError

__all__ = ["ALL_NAMESPACES", "Cluster", "ClusterError", "Event", "Object", "Resource"]

__getattr__ = lazy_exports(
    __name__,
    {
        "api": ("ALL_NAMESPACES", "Object", "Resource"),
        "cluster": ("Cluster", "Event"),
        "errors": ("ClusterError",),
    },
)
