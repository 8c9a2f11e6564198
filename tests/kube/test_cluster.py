"""Operations on the objects of a cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.kube import ALL_NAMESPACES, Cluster, ClusterError, Resource, cluster, transport
from opmkit.kube.api import CONFIG_MAP, CRD, DEPLOYMENT, NAMESPACE, POD, SUBSCRIPTION
from opmkit.kube.errors import UNKNOWN_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kit.apiserver import ApiServer

WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}],
    },
}
WIDGET = Resource("example.com", "v1", "Widget", "widgets")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "BACKOFF", 0.001)
    monkeypatch.setattr(cluster, "PAUSE", 0.01)


def config_map(name: str, data: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": dict(data or {})}


def test_objects_are_created_changed_and_deleted(cluster: Cluster, server: ApiServer) -> None:
    created = cluster.create(config_map("a", {"x": "1"}))
    assert (created["kind"], created["metadata"]["namespace"]) == ("ConfigMap", "olm")
    assert cluster.get(CONFIG_MAP, "a") == created
    created["data"]["x"] = "2"
    assert cluster.replace(created)["data"] == {"x": "2"}
    assert cluster.patch(CONFIG_MAP, "a", {"data": {"y": "3", "x": None}})["data"] == {"y": "3"}
    assert cluster.delete(CONFIG_MAP, "a")
    assert not cluster.delete(CONFIG_MAP, "a")
    assert cluster.find(CONFIG_MAP, "a") is None
    with pytest.raises(ClusterError, match=r'^configmaps "a" not found$') as failure:
        cluster.get(CONFIG_MAP, "a")
    assert (failure.value.status, failure.value.reason) == (404, "NotFound")


def test_lists(cluster: Cluster, server: ApiServer) -> None:
    for name in ("a", "b"):
        server.put_config_map("olm", name, labels={"app": name})
    server.put_config_map("default", "c", labels={"app": "a"})
    assert [each["metadata"]["name"] for each in cluster.list(CONFIG_MAP)] == ["a", "b"]
    assert [each["kind"] for each in cluster.list(CONFIG_MAP, ALL_NAMESPACES)] == ["ConfigMap"] * 3
    assert [each["metadata"]["name"] for each in cluster.list(CONFIG_MAP, labels={"app": "a"})] == ["a"]
    assert [each["metadata"]["name"] for each in cluster.list(CONFIG_MAP, fields={"metadata.name": "b"})] == ["b"]
    assert [each["metadata"]["name"] for each in cluster.list(NAMESPACE)] == ["default", "olm"]


@pytest.mark.slow
def test_long_lists_are_read_in_pages(cluster: Cluster, server: ApiServer) -> None:
    names = [f"c{number:03}" for number in range(600)]
    for name in names:
        server.put_config_map("olm", name)
    assert [each["metadata"]["name"] for each in cluster.list(CONFIG_MAP)] == names
    assert [request.verb for request in server.requests] == ["list"] * 3


def test_apply_changes_the_own_fields(cluster: Cluster, server: ApiServer) -> None:
    cluster.apply(config_map("a", {"x": "1", "y": "1"}))
    cluster.patch(CONFIG_MAP, "a", {"metadata": {"labels": {"theirs": "1"}}})
    changed = cluster.apply(config_map("a", {"x": "2"}))
    assert changed["data"] == {"x": "2"}
    assert changed["metadata"]["labels"] == {"theirs": "1"}
    assert [request.verb for request in server.requests] == ["patch"] * 3


def test_subresources(cluster: Cluster, server: ApiServer) -> None:
    server.put({"kind": "Deployment", "metadata": {"name": "d", "namespace": "olm"}, "spec": {"replicas": 1}})
    changed = cluster.patch(DEPLOYMENT, "d", {"status": {"replicas": 1}}, subresource="status")
    assert changed["status"] == {"replicas": 1}
    assert server.requests[-1].subresource == "status"


def test_custom_resources_are_discovered(cluster: Cluster, server: ApiServer) -> None:
    with pytest.raises(ClusterError, match=r"^the cluster does not have the kind Widget in example.com/v1$") as failure:
        cluster.resource_for("example.com/v1", "Widget")
    assert failure.value.reason == UNKNOWN_RESOURCE
    cluster.create(WIDGETS)
    assert cluster.resource_for("example.com/v1", "Widget") == WIDGET
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    assert cluster.apply(widget)["metadata"]["namespace"] == "olm"
    assert cluster.delete(CRD, "widgets.example.com")
    assert cluster.find(WIDGET, "w") is None


def test_unknown_resources_are_named(cluster: Cluster) -> None:
    with pytest.raises(
        ClusterError,
        match=r"^the cluster does not have the resource subscriptions.operators.coreos.com in version v1alpha1$",
    ) as failure:
        cluster.list(SUBSCRIPTION)
    assert (failure.value.status, failure.value.reason) == (404, UNKNOWN_RESOURCE)
    assert cluster.find(SUBSCRIPTION, "x") is None


def test_denied_requests_name_verb_and_resource(cluster: Cluster, server: ApiServer) -> None:
    server.deny("list", "deployments")
    with pytest.raises(
        ClusterError, match='User "tester" cannot list resource "deployments" in API group "apps"'
    ) as error:
        cluster.list(DEPLOYMENT)
    assert "with a Role and a RoleBinding" in str(error.value.hint)
    server.deny("create", "namespaces")
    with pytest.raises(ClusterError, match="cannot create resource") as error:
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
    assert "with a ClusterRole and a ClusterRoleBinding" in str(error.value.hint)
    server.fail("get", "pods", status=403, message="Forbidden")
    with pytest.raises(ClusterError, match=r"^cannot get pods: Forbidden$"):
        cluster.get(POD, "p")


def test_transient_failures_are_retried(cluster: Cluster, server: ApiServer) -> None:
    server.put_config_map("olm", "a")
    server.fail("get", status=503)
    server.fail("get", status=429, headers={"Retry-After": "0"})
    server.fail("get")
    assert cluster.get(CONFIG_MAP, "a")
    assert len(server.requests) == 4
    server.fail("create", status=429)
    assert cluster.create(config_map("b"))
    server.fail("create", status=500, message="no")
    with pytest.raises(ClusterError, match=r"^no$"):
        cluster.create(config_map("c"))
    server.fail("get", status=500, times=9)
    with pytest.raises(ClusterError, match="injected fault"):
        cluster.get(CONFIG_MAP, "a")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a?b", "a%2Fb", "a b", "\x1b[0m", "\ud800"])
def test_names_stay_in_their_path(name: str, cluster: Cluster, server: ApiServer) -> None:
    with pytest.raises(ClusterError):
        cluster.get(CONFIG_MAP, name)
    assert [request.name for request in server.requests] in ([], [name])


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"apiVersion": 1, "kind": "ConfigMap", "metadata": {}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": []},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 1}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": 1}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"a": 1}},
            "data": {"x": object()},
        },
    ],
)
def test_invalid_objects(obj: dict[str, Any], cluster: Cluster) -> None:
    for operation in (cluster.create, cluster.apply, cluster.replace):
        with pytest.raises(ClusterError):
            operation(obj)


def test_logs(cluster: Cluster, server: ApiServer) -> None:
    server.put({"kind": "Pod", "metadata": {"name": "p", "namespace": "olm"}})
    server.pod_logs["olm", "p"] = "one\ntwo\n"
    assert cluster.logs("p") == "one\ntwo\n"
    with pytest.raises(ClusterError, match='pods "q" not found'):
        cluster.logs("q")


def test_watch(cluster: Cluster, server: ApiServer) -> None:
    server.put_config_map("olm", "a", labels={"app": "x"})
    server.put_config_map("default", "other")
    events = cluster.watch(CONFIG_MAP, deadline=time.monotonic() + 20)
    assert next(events).type == "ADDED"
    server.put_config_map("olm", "a", {"x": "1"})
    change, obj = next(events)
    assert (change, obj["data"]) == ("MODIFIED", {"x": "1"})
    server.remove("ConfigMap", "a", "olm")
    assert next(events).type == "DELETED"


def test_watch_ends_at_its_deadline(cluster: Cluster, server: ApiServer) -> None:
    server.put_config_map("olm", "a")
    assert [event.type for event in cluster.watch(CONFIG_MAP, deadline=time.monotonic() + 0.05)] == ["ADDED"]
    assert list(cluster.watch(CONFIG_MAP, name="none", deadline=time.monotonic())) == []


def test_watch_continues_after_a_lost_connection(cluster: Cluster, server: ApiServer) -> None:
    events = cluster.watch(CONFIG_MAP, deadline=time.monotonic() + 20)
    server.put_config_map("olm", "a")
    assert next(events).type == "ADDED"
    server.fail("watch")
    server.fail("watch", status=503)
    server.put_config_map("olm", "a", {"x": "1"})
    assert next(events).type == "MODIFIED"
    server.drop_watches()
    server.put_config_map("olm", "b")
    assert next(events).object["metadata"]["name"] == "b"


def test_watch_continues_after_its_version_expired(cluster: Cluster, server: ApiServer) -> None:
    server.put_config_map("olm", "a")
    server.put_config_map("olm", "b")
    events = cluster.watch(CONFIG_MAP, deadline=time.monotonic() + 20)
    assert [next(events).type for _ in range(2)] == ["ADDED", "ADDED"]
    server.remove("ConfigMap", "a", "olm")
    server.put_config_map("olm", "b", {"x": "1"})
    server.put_config_map("olm", "c")
    server.store.compact()
    found = [(event.type, event.object["metadata"]["name"]) for event in (next(events) for _ in range(3))]
    assert found == [("DELETED", "a"), ("MODIFIED", "b"), ("ADDED", "c")]


def test_watch_of_an_unknown_resource(cluster: Cluster, server: ApiServer) -> None:
    with pytest.raises(ClusterError, match="does not have the resource"):
        next(cluster.watch(SUBSCRIPTION, deadline=time.monotonic() + 5))
    server.deny("watch", "pods")
    with pytest.raises(ClusterError, match="cannot watch resource"):
        next(cluster.watch(POD, deadline=time.monotonic() + 5))
