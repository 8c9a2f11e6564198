"""The state of OLM's objects in a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.author.install.release import is_package_server, version_of
from opmkit.author.run.errors import OlmError, OlmNotInstalled
from opmkit.author.run.hint_terms import OlmOperation
from opmkit.author.run.objects import condition, field, name_of, namespace_of, text
from opmkit.core.hints import Hint
from opmkit.kube.api import CSV
from opmkit.kube.errors import ClusterError

if TYPE_CHECKING:
    from opmkit.author.install.release import Release
    from opmkit.kube import Cluster
    from opmkit.kube.api import Object

INSTALLED, NOT_FOUND, DELETED = "Installed", "Not found", "Deleted"


class ObjectStatus(Struct, frozen=True):
    """The state of an object of a release.

    Attributes:
        status: ``Installed``, with a remark if it is not ready, ``Not found`` or ``Deleted``.
        ready: Whether it exists and works.
        exists: Whether it exists.
    """

    name: str
    namespace: str
    kind: str
    api_version: str
    status: str
    ready: bool
    exists: bool


def find_installed_version(cluster: Cluster, namespace: str) -> str:
    """Return the version of OLM in a cluster, or "" if it is unknown.

    Raises:
        OlmNotInstalled: OLM is not installed in the namespace.
        OlmError: More than one version is installed.
        ClusterError: The cluster rejects the request.
    """
    not_installed = OlmNotInstalled(
        f"OLM is not installed in namespace {namespace} of the cluster {cluster.host}",
        hint=Hint.any_of(
            Hint("install it with {}", OlmOperation.INSTALL_OLM),
            "check the namespace of OLM, and that the kubeconfig selects the right cluster",
        ),
    )
    try:
        servers = [each for each in cluster.list(CSV, namespace) if is_package_server(each)]
    except ClusterError as error:
        if error.status != 404:
            raise
        raise not_installed from error
    if not servers:
        raise not_installed
    if len(servers) > 1:
        names = " and ".join(map(name_of, servers))
        raise OlmError(f"more than one version of OLM is installed in namespace {namespace}: {names}")
    return version_of(servers[0])


def inspect(cluster: Cluster, release: Release) -> list[ObjectStatus]:
    """Return the state of all objects of a release, in the order of their creation; raises ClusterError."""
    return [describe(each, release.find(cluster, each)) for each in release.objects]


def describe(wanted: Object, found: Object | None) -> ObjectStatus:
    """Return the state of an object as found in the cluster."""
    remark = problem(found) if found else ""
    status = f"{INSTALLED}, {remark}" if remark else INSTALLED
    return ObjectStatus(
        name_of(wanted),
        namespace_of(wanted),
        wanted["kind"],
        wanted["apiVersion"],
        status if found else NOT_FOUND,
        ready=found is not None and not remark,
        exists=found is not None,
    )


def problem(obj: Object) -> str:
    """Return why an existing object is not ready, or "" if it is."""
    if field(obj, "metadata", "deletionTimestamp"):
        return "being deleted"
    match obj.get("kind"):
        case "CustomResourceDefinition":
            return "" if condition(obj, "Established").get("status") == "True" else "not established yet"
        case "Deployment":
            return rollout_problem(obj)
        case "ClusterServiceVersion":
            phase, reason = text(obj, "status", "phase"), text(obj, "status", "reason")
            if phase == "Succeeded":
                return ""
            return f"phase {phase}: {reason}" if phase and reason else f"phase {phase}" if phase else "no phase yet"
    return ""


def rollout_problem(deployment: Object) -> str:
    """Return why the rollout of a Deployment is incomplete, or "" if it is complete."""
    if _number(deployment, "metadata", "generation") > _number(deployment, "status", "observedGeneration"):
        return "its spec has not been observed yet"
    if condition(deployment, "Progressing").get("reason") == "ProgressDeadlineExceeded":
        return "progress deadline exceeded"
    wanted = field(deployment, "spec", "replicas")
    wanted = wanted if isinstance(wanted, int) else 1
    updated, total = _number(deployment, "status", "updatedReplicas"), _number(deployment, "status", "replicas")
    if updated < wanted:
        return f"{updated} of {wanted} replicas updated"
    if total > updated:
        return f"{total - updated} old replicas still running"
    available = _number(deployment, "status", "availableReplicas")
    return "" if available >= updated else f"{available} of {updated} replicas available"


def _number(obj: Object, *path: str) -> int:
    value = field(obj, *path)
    return value if isinstance(value, int) else 0
