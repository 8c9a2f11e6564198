"""Client for Kubernetes clusters; knows nothing of operators.

`cluster` is the entry point. Only `api` and `transport` import the client library, and only when a cluster is
contacted.
"""

from opmkit.kube.cluster import Cluster, Event
from opmkit.kube.errors import ClusterError
from opmkit.kube.resources import ALL_NAMESPACES, Object, Resource

__all__ = ["ALL_NAMESPACES", "Cluster", "ClusterError", "Event", "Object", "Resource"]
