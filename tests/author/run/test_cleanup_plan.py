"""Objects that belong to an operator, among those of others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.author.run.cleanup import CleanupPlan, plan_cleanup

if TYPE_CHECKING:
    from tests.kit.apiserver import ApiServer

    from opmkit.kube import Cluster


def put(server: ApiServer, kind: str, name: str, content: dict[str, Any] | None = None, **metadata: Any) -> str:
    """Create an object in the namespace ``ns`` and return its UID."""
    stored = server.put({"kind": kind, "metadata": {"name": name, "namespace": "ns", **metadata}, **(content or {})})
    return str(stored["metadata"]["uid"])


def subscribe(server: ApiServer, package: str, csv: str) -> str:
    """Create the Subscription and the ClusterServiceVersion of a package."""
    put(server, "ClusterServiceVersion", csv)
    spec = {"name": package, "source": "shared", "sourceNamespace": "ns", "startingCSV": csv}
    return put(server, "Subscription", package, {"spec": spec, "status": {"installedCSV": csv}})


def owners(*uids: str) -> list[dict[str, str]]:
    return [{"kind": "Subscription", "uid": uid} for uid in uids]


def names(plan: CleanupPlan) -> list[str]:
    targets = (*plan.subscriptions, *plan.definitions, *plan.installation, *plan.catalog, *plan.groups)
    return [f"{target.resource.kind} {target.name}" for target in targets]


def test_objects_of_other_packages_are_not_part_of_the_plan(server: ApiServer, cluster: Cluster) -> None:
    ours, other = subscribe(server, "demo", "demo.v1"), subscribe(server, "other", "other.v1")
    spec = {"spec": {"clusterServiceVersionNames": ["demo.v1"]}}
    put(server, "InstallPlan", "ours", spec, ownerReferences=owners(ours))
    both = {"spec": {"clusterServiceVersionNames": ["demo.v1", "other.v1"]}}
    put(server, "InstallPlan", "both", both, ownerReferences=owners(ours, other))
    put(server, "CatalogSource", "shared", {"spec": {"publisher": "Red Hat"}})
    put(server, "OperatorGroup", "operator-sdk-og")
    put(
        server, "ClusterServiceVersion", "copied.v1", labels={"olm.copiedFrom": "a", "operators.coreos.com/demo.ns": ""}
    )
    plan = plan_cleanup(cluster, "ns", "demo")
    assert names(plan) == ["Subscription demo", "InstallPlan ours", "ClusterServiceVersion demo.v1"]
    assert {str(target): reason for target, reason in plan.retained.items()} == {
        "CatalogSource ns/shared": "not created to run this package",
        "OperatorGroup ns/operator-sdk-og": "used by Subscription other",
    }


def test_objects_without_a_subscription_are_found_by_their_labels(server: ApiServer, cluster: Cluster) -> None:
    put(server, "ClusterServiceVersion", "demo.v1", labels={"operators.coreos.com/demo.ns": ""})
    labels = {"app.kubernetes.io/managed-by": "opmkit", "app.kubernetes.io/instance": "demo-catalog"}
    for kind in ("Pod", "ConfigMap"):
        put(server, kind, "stray", labels=labels)
        put(server, kind, "foreign", labels={**labels, "app.kubernetes.io/instance": "other-catalog"})
    put(server, "OperatorGroup", "operator-sdk-og")
    put(server, "InstallPlan", "empty", {"spec": {"clusterServiceVersionNames": []}})
    spec = {"publisher": "opmkit", "displayName": "Demo"}
    put(server, "CatalogSource", "demo-catalog", {"spec": spec})
    assert names(plan_cleanup(cluster, "ns", "demo")) == [
        *("ClusterServiceVersion demo.v1", "Pod stray", "ConfigMap stray", "OperatorGroup operator-sdk-og")
    ]


@pytest.mark.parametrize(
    ("properties", "is_ours"),
    [
        ({"properties": [{"type": "olm.gvk"}, {"type": "olm.package", "value": {"packageName": "demo"}}]}, True),
        ({"properties": [{"type": "olm.package", "value": {"packageName": "other"}}]}, False),
        ({"properties": [{"type": "olm.package", "value": "demo"}, "olm.package"]}, False),
        ([], False),
        (None, False),
    ],
)
def test_version_without_a_subscription_is_found_by_its_package(
    properties: object, is_ours: bool, server: ApiServer, cluster: Cluster
) -> None:
    """OLM creates it after the Subscription was deleted, if it is executing an InstallPlan."""
    annotations = {"operatorframework.io/properties": json.dumps(properties) if properties is not None else "{"}
    put(server, "ClusterServiceVersion", "demo.v1", annotations=annotations)
    assert names(plan_cleanup(cluster, "ns", "demo")) == ["ClusterServiceVersion demo.v1"] * is_ours


def test_only_objects_that_the_install_plans_created_are_removed(server: ApiServer, cluster: Cluster) -> None:
    uid = subscribe(server, "demo", "demo.v1")
    rbac = {"kind": "ClusterRole", "group": "rbac.authorization.k8s.io", "version": "v1"}
    crd = {"kind": "CustomResourceDefinition", "group": "apiextensions.k8s.io", "version": "v1"}
    steps = [
        {"status": "Created", "resource": {**rbac, "name": "created"}},
        {"status": "Present", "resource": {**rbac, "name": "present"}},
        {"status": "Created", "resource": {"kind": "Service", "group": "", "version": "v1", "name": "namespaced"}},
        {"status": "Created", "resource": {"kind": "Unknown", "group": "x.io", "version": "v1", "name": "unknown"}},
        {"status": "Created", "resource": {**crd, "name": "demos.example.com"}},
        {"status": "Created", "resource": "malformed"},
    ]
    spec = {"spec": {"clusterServiceVersionNames": ["demo.v1"]}, "status": {"plan": steps}}
    put(server, "InstallPlan", "ours", spec, ownerReferences=owners(uid))
    plan = plan_cleanup(cluster, "ns", "demo")
    assert [target.name for target in plan.definitions] == ["demos.example.com"]
    assert [str(target) for target in plan.installation][1:] == ["ClusterRole created"]


def test_definitions_that_another_operator_owns_are_retained(server: ApiServer, cluster: Cluster) -> None:
    owned = {"spec": {"customresourcedefinitions": {"owned": [{"name": "demos.example.com"}, {"name": 1}]}}}
    subscribe(server, "demo", "demo.v1")
    put(server, "ClusterServiceVersion", "demo.v1", owned)
    server.put({"kind": "ClusterServiceVersion", "metadata": {"name": "other.v1", "namespace": "default"}, **owned})
    plan = plan_cleanup(cluster, "ns", "demo")
    assert plan.definitions == []
    assert list(plan.retained.values()) == ["also owned by default/other.v1"]
