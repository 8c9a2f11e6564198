"""Flags for access to a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from opmkit import ClusterAccess

CLUSTER_PANEL = "Cluster access"


@dataclass(frozen=True, slots=True)
class ConnectionFlags:
    """Flags for the connection to a cluster."""

    kubeconfig: Annotated[
        str,
        typer.Option(
            "--kubeconfig",
            metavar="FILE",
            help="Kubeconfig file to use instead of KUBECONFIG and ~/.kube/config",
            rich_help_panel=CLUSTER_PANEL,
        ),
    ] = ""
    context: Annotated[
        str,
        typer.Option(
            "--context",
            metavar="NAME",
            help="Context of the kubeconfig to use instead of its current one",
            rich_help_panel=CLUSTER_PANEL,
        ),
    ] = ""

    def access(self) -> ClusterAccess:
        """Return the cluster."""
        from opmkit import ClusterAccess

        return ClusterAccess(self.kubeconfig, self.context)


@dataclass(frozen=True, slots=True)
class ClusterFlags(ConnectionFlags):
    """Flags for access to a namespace of a cluster."""

    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAMESPACE",
            help="Namespace to use instead of the one of the context",
            rich_help_panel=CLUSTER_PANEL,
        ),
    ] = ""

    def access(self) -> ClusterAccess:
        """Return the cluster and the namespace."""
        from opmkit import ClusterAccess

        return ClusterAccess(self.kubeconfig, self.context, self.namespace)
