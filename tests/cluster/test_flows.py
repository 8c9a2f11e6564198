"""``opm run`` and ``opm cleanup`` with OLM in a cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cluster.state import cluster_state, wait_for_state
from tests.kit.cluster.cluster import OPERATORS

if TYPE_CHECKING:
    from tests.kit.cluster.cluster import Cluster
    from tests.kit.cluster.operators import SampleOperator
    from tests.kit.opm import Opm


def phases(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Return the phase of each ClusterServiceVersion in a namespace, without copies of those in other namespaces."""
    path = f"{OPERATORS}/namespaces/{namespace}/clusterserviceversions?labelSelector=!olm.copiedFrom"
    found = cluster.client.list(path)
    return {each["metadata"]["name"]: each.get("status", {}).get("phase", "") for each in found}


def test_bundle_is_installed_upgraded_and_removed_without_a_trace(
    cluster: Cluster, namespace: str, kube_opm: Opm, operator: SampleOperator, opm_http: Opm
) -> None:
    first, second = operator.build(opm_http, "0.1.0"), operator.build(opm_http, "0.2.0")
    before = cluster_state(cluster.client)

    installed = json.loads(kube_opm("run", "bundle", first, "--use-http", "-o", "json"))
    assert (installed["csv"], installed["namespace"]) == (operator.csv("0.1.0"), namespace)
    assert phases(cluster, namespace) == {operator.csv("0.1.0"): "Succeeded"}

    upgraded = json.loads(kube_opm("run", "bundle-upgrade", second, "--use-http", "-o", "json"))
    assert (upgraded["csv"], upgraded["replaced"]) == (operator.csv("0.2.0"), operator.csv("0.1.0"))
    cluster.client.wait_gone(f"{OPERATORS}/namespaces/{namespace}/clusterserviceversions/{operator.csv('0.1.0')}")
    assert phases(cluster, namespace) == {operator.csv("0.2.0"): "Succeeded"}

    kube_opm("cleanup", operator.package)
    wait_for_state(cluster.client, before)


def test_bundle_directory_is_installed_without_a_registry(
    cluster: Cluster, namespace: str, kube_opm: Opm, operator: SampleOperator
) -> None:
    manifests = operator.write_manifests("0.1.0")
    kube_opm("bundle", "generate", "--directory", str(manifests), "--package", operator.package, "--channels", "alpha")
    kube_opm("run", "bundle", str(manifests.parent), "--install-mode", "OwnNamespace")
    assert phases(cluster, namespace) == {operator.csv("0.1.0"): "Succeeded"}
    (group,) = cluster.client.list(f"/apis/operators.coreos.com/v1/namespaces/{namespace}/operatorgroups")
    assert group["spec"]["targetNamespaces"] == [namespace]
    jobs = cluster.client.list(f"/apis/batch/v1/namespaces/{namespace}/jobs")
    assert jobs == []


def test_package_manifests_are_installed_and_removed_without_a_trace(
    cluster: Cluster, namespace: str, kube_opm: Opm, operator: SampleOperator
) -> None:
    packages = operator.directory / "packages"
    packages.mkdir(parents=True)
    for version in ("0.1.0", "0.2.0"):
        operator.write_manifests(version).rename(packages / version)
    package = {"packageName": operator.package, "channels": [{"name": "alpha", "currentCSV": operator.csv("0.2.0")}]}
    (packages / f"{operator.package}.package.yaml").write_text(json.dumps(package))
    before = cluster_state(cluster.client)
    kube_opm("run", "packagemanifests", str(packages))
    assert phases(cluster, namespace) == {operator.csv("0.2.0"): "Succeeded"}
    kube_opm("cleanup", operator.package)
    wait_for_state(cluster.client, before)
