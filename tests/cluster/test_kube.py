"""The client for clusters with a real API server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.kube import ALL_NAMESPACES, ClusterError
from opmkit.kube import Cluster as Client
from opmkit.kube.api import CLUSTER_ROLE, CONFIG_MAP, DEPLOYMENT, NAMESPACE, Resource
from opmkit.kube.errors import UNKNOWN_RESOURCE

if TYPE_CHECKING:
    from tests.kit.cluster.cluster import Cluster


@pytest.fixture
def client(cluster: Cluster, namespace: str) -> Client:
    """Return a client whose default namespace is new."""
    return Client.connect(str(cluster.kubeconfig), namespace=namespace)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_operations_and_watches(client: Client) -> None:
    events = client.watch(CONFIG_MAP, name="a", deadline=time.monotonic() + 120)
    client.apply(config_map("a", x="1", y="1"))
    first = next(events)
    assert (first.type, first.object["data"]) == ("ADDED", {"x": "1", "y": "1"})
    client.patch(CONFIG_MAP, "a", {"data": {"theirs": "1"}})
    assert client.apply(config_map("a", x="2"))["data"] == {"x": "2", "theirs": "1"}
    assert [next(events).type for _ in range(2)] == ["MODIFIED", "MODIFIED"]
    changed = client.get(CONFIG_MAP, "a")
    client.patch(CONFIG_MAP, "a", {"data": {"x": "3"}})
    with pytest.raises(ClusterError, match="the object has been modified") as conflict:
        client.replace(changed)
    assert conflict.value.reason == "Conflict"
    assert client.delete(CONFIG_MAP, "a")
    assert [next(events).type for _ in range(2)] == ["MODIFIED", "DELETED"]
    assert not client.delete(CONFIG_MAP, "a")


def test_lists_and_discovery(client: Client) -> None:
    for number in range(3):
        client.create(
            {**config_map(f"c{number}"), "metadata": {"name": f"c{number}", "labels": {"app": f"{number % 2}"}}}
        )
    assert [each["metadata"]["name"] for each in client.list(CONFIG_MAP, labels={"app": "0"})] == ["c0", "c2"]
    fields = {"metadata.namespace": client.namespace, "metadata.name": "c1"}
    assert len(client.list(CONFIG_MAP, ALL_NAMESPACES, fields=fields)) == 1
    assert client.list(CLUSTER_ROLE)[0]["kind"] == "ClusterRole"
    assert client.find(NAMESPACE, client.namespace)
    found = client.resource_for("autoscaling/v2", "HorizontalPodAutoscaler")
    assert found == Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")


def test_errors(client: Client) -> None:
    unknown = Resource("none.example.com", "v1", "None", "nones")
    with pytest.raises(
        ClusterError, match=r"does not have the resource nones.none.example.com in version v1"
    ) as failure:
        client.list(unknown)
    assert (failure.value.status, failure.value.reason) == (404, UNKNOWN_RESOURCE)
    assert client.find(unknown, "x") is None
    client.create(config_map("a"))
    with pytest.raises(ClusterError, match='configmaps "a" already exists'):
        client.create(config_map("a"))
    with pytest.raises(ClusterError, match=r'Deployment.apps "d" is invalid: .*spec.selector') as failure:
        client.create(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {}}}
        )
    assert failure.value.status == 422
    with pytest.raises(ClusterError, match=r'deployments.apps "d" not found'):
        client.get(DEPLOYMENT, "d")
