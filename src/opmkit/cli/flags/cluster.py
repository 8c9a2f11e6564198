"""Flags for access to a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from opmkit.cli.parser.declaration import flag

if TYPE_CHECKING:
    from opmkit import ClusterAccess

CLUSTER_PANEL = "Cluster access"


@dataclass(frozen=True, slots=True)
class ConnectionFlags:
    """Flags for the connection to a cluster."""

    panel: ClassVar[str] = CLUSTER_PANEL

    kubeconfig: str = flag("", "Kubeconfig file to use instead of KUBECONFIG and ~/.kube/config", metavar="FILE")
    context: str = flag("", "Context of the kubeconfig to use instead of its current one", metavar="NAME")

    @property
    def is_given(self) -> bool:
        """Whether a cluster is named."""
        return bool(self.kubeconfig or self.context)

    def access(self) -> ClusterAccess:
        """Return the cluster."""
        from opmkit import ClusterAccess

        return ClusterAccess(self.kubeconfig, self.context)


@dataclass(frozen=True, slots=True)
class ClusterFlags(ConnectionFlags):
    """Flags for access to a namespace of a cluster."""

    namespace: str = flag(
        "", "Namespace to use instead of the one of the context", "-n", panel=CLUSTER_PANEL, metavar="NAMESPACE"
    )

    def access(self) -> ClusterAccess:
        """Return the cluster and the namespace."""
        from opmkit import ClusterAccess

        return ClusterAccess(self.kubeconfig, self.context, self.namespace)
