"""The choice of a cluster and of a namespace in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opmkit.kube.cluster import Cluster


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """A cluster, and a namespace in it.

    Attributes:
        kubeconfig: Kubeconfig files separated as in ``KUBECONFIG``; "" for ``KUBECONFIG``, ``~/.kube/config`` or the
            service account of this pod, whichever is found first.
        context: Context of the kubeconfig, "" for its current one.
        namespace: Namespace, "" for the one of the context.
    """

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""

    def connect(self) -> Cluster:
        """Return a client for the cluster, without sending a request; raises ClusterError."""
        from opmkit.kube.cluster import Cluster

        return Cluster.connect(self.kubeconfig, context=self.context, namespace=self.namespace)
