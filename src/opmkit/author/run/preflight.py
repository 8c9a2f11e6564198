"""Checks of a cluster before an operator is installed or removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.author.run.errors import InstallationConflict, OlmError, OlmNotInstalled
from opmkit.author.run.hint_terms import OlmOperation, OlmSetting
from opmkit.author.run.objects import catalog_name, name_of, text
from opmkit.core.hints import Hint
from opmkit.kube.errors import ClusterError
from opmkit.kube.resources import CATALOG_SOURCE, NAMESPACE, SUBSCRIPTION

if TYPE_CHECKING:
    from opmkit.kube import Cluster
    from opmkit.kube.resources import Object


def list_subscriptions(cluster: Cluster, namespace: str, package: str) -> list[Object]:
    """Return the Subscriptions to a package in a namespace.

    Raises:
        OlmNotInstalled: The cluster does not have OLM's APIs.
    """
    try:
        found = cluster.list(SUBSCRIPTION, namespace)
    except ClusterError as error:
        if error.status != 404:
            raise
        raise OlmNotInstalled(
            f"OLM is not installed in the cluster {cluster.host}: it does not have {SUBSCRIPTION.full_name}",
            hint=Hint.any_of(
                Hint("install it with {}", OlmOperation.INSTALL_OLM),
                "check that the kubeconfig selects the right cluster",
            ),
        ) from error
    return [each for each in found if text(each, "spec", "name") == package]


def check_cluster(cluster: Cluster, namespace: str) -> None:
    """Raise OlmNotInstalled if the cluster does not have OLM, and OlmError if the namespace does not exist."""
    list_subscriptions(cluster, namespace, "")
    check_namespace(cluster, namespace)


def check_namespace(cluster: Cluster, namespace: str) -> None:
    """Raise OlmError if a namespace does not exist; users who may not read it can still use it."""
    try:
        cluster.get(NAMESPACE, namespace)
    except ClusterError as error:
        if error.status == 403:
            return
        if error.status != 404:
            raise
        raise OlmError(
            f"namespace {namespace}: not found",
            hint=Hint.any_of("create it", Hint("choose another one with {}", OlmSetting.NAMESPACE)),
        ) from error


def check_not_installed(cluster: Cluster, namespace: str, package: str) -> None:
    """Raise InstallationConflict if a package is installed, or an earlier attempt left its CatalogSource."""
    existing = list_subscriptions(cluster, namespace, package)
    clean_up = Hint(f"remove it with {{}} for package {package}", OlmOperation.CLEAN_UP)
    if existing:
        installed = text(existing[0], "status", "installedCSV")
        state = f"{installed} is installed" if installed else "an earlier installation is incomplete"
        raise InstallationConflict(
            f"package {package}: already exists in namespace {namespace}: {state}, Subscription {name_of(existing[0])}",
            hint=Hint.any_of(clean_up, Hint("upgrade it with {}", OlmOperation.UPGRADE_OPERATOR)),
        )
    name = catalog_name(package)
    if cluster.find(CATALOG_SOURCE, name, namespace):
        raise InstallationConflict(f"CatalogSource {namespace}/{name}: already exists", hint=clean_up)
