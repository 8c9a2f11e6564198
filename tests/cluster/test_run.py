"""``opm run`` and ``opm cleanup`` with OLM in a cluster."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

from tests.kit.cluster.cluster import OPERATORS

if TYPE_CHECKING:
    from tests.kit.cluster.client import KubeClient, Object
    from tests.kit.cluster.cluster import Cluster
    from tests.kit.cluster.operators import SampleOperator
    from tests.kit.opm import Opm

_VOLATILE = ("resourceVersion", "managedFields", "generation")
_NAMES = re.compile(r"/(?:pond|test-)\d+")


def state(client: KubeClient, *names: str) -> dict[str, Object]:
    """Return the objects of the cluster without what changes when an object is written.

    Objects of other tests are omitted: those whose paths contain a name of a sample that is not in ``names``.
    """
    own = {f"/{name}" for name in names}
    objects = {path: each for path, each in client.dump().items() if own.issuperset(_NAMES.findall(path))}
    for each in objects.values():
        each["metadata"] = {key: value for key, value in each["metadata"].items() if key not in _VOLATILE}
    return objects


def wait_for_state(client: KubeClient, expected: dict[str, Object], *names: str) -> None:
    """Return once the cluster has the expected objects again; pods end a moment after their owners."""
    deadline = time.monotonic() + 60
    while (found := state(client, *names)) != expected and time.monotonic() < deadline:
        time.sleep(0.5)
    assert sorted(found) == sorted(expected)
    assert found == expected


def phases(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Return the phase of each ClusterServiceVersion in a namespace."""
    found = cluster.client.list(f"{OPERATORS}/namespaces/{namespace}/clusterserviceversions")
    return {each["metadata"]["name"]: each.get("status", {}).get("phase", "") for each in found}


def test_bundle_is_installed_upgraded_and_removed_without_a_trace(
    cluster: Cluster, namespace: str, kube_opm: Opm, operator: SampleOperator, opm_http: Opm
) -> None:
    first, second = operator.build(opm_http, "0.1.0"), operator.build(opm_http, "0.2.0")
    before = state(cluster.client, operator.name, namespace)

    installed = json.loads(kube_opm("run", "bundle", first, "--use-http", "-o", "json"))
    assert (installed["csv"], installed["namespace"]) == (operator.csv("0.1.0"), namespace)
    assert phases(cluster, namespace) == {operator.csv("0.1.0"): "Succeeded"}

    upgraded = json.loads(kube_opm("run", "bundle-upgrade", second, "--use-http", "-o", "json"))
    assert (upgraded["csv"], upgraded["replaced"]) == (operator.csv("0.2.0"), operator.csv("0.1.0"))
    assert phases(cluster, namespace) == {operator.csv("0.2.0"): "Succeeded"}

    kube_opm("cleanup", operator.package)
    wait_for_state(cluster.client, before, operator.name, namespace)


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
    before = state(cluster.client, operator.name, namespace)
    kube_opm("run", "packagemanifests", str(packages))
    assert phases(cluster, namespace) == {operator.csv("0.2.0"): "Succeeded"}
    kube_opm("cleanup", operator.package)
    wait_for_state(cluster.client, before, operator.name, namespace)
