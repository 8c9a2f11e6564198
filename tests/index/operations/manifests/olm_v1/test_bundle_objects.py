"""Permissions of the installer of a bundle."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from opmkit.bundle.rendering.registry_v1 import read_registry_v1
from opmkit.index.operations.manifests.olm_v1.bundle_objects import (
    BundleObjects,
    ManagedObject,
    bundle_objects,
    cluster_admin_manifests,
    permission_manifests,
)
from opmkit.index.operations.manifests.olm_v1.cluster_extension import ClusterExtension

EXTENSION = ClusterExtension("shelf", "shelves", "catalog", service_account="shelf-installer")
RBAC = "rbac.authorization.k8s.io"
BOOKS = {"apiGroups": ["example.com"], "resources": ["books"], "verbs": ["*"]}
LEASES = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]}
VIEW = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
NAMESPACES = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}
WEBHOOK = {"deploymentName": "shelf.manager", "admissionReviewVersions": ["v1"], "sideEffects": "None"}


def objects(
    *manifests: dict[str, Any], all_namespaces: bool = True, files: dict[str, bytes] | None = None, **install: Any
) -> BundleObjects:
    """Return the objects of a bundle with manifests, the install strategy and, below ``webhooks``, webhooks."""
    csv = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "shelf.v1"},
        "spec": {
            "install": {"strategy": "deployment", "spec": install},
            "webhookdefinitions": install.pop("webhooks", []),
        },
    }
    files = (files or {}) | {
        f"manifests/{number}.yaml": yaml.safe_dump(one).encode() for number, one in enumerate((csv, *manifests))
    }
    annotations = "annotations: {operators.operatorframework.io.bundle.package.v1: shelf}"
    files["metadata/annotations.yaml"] = annotations.encode()
    return bundle_objects(read_registry_v1(files), all_namespaces=all_namespaces)


def manifest(kind: str, name: str, version: str = "v1", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def managed(found: BundleObjects) -> set[tuple[str, str, str, bool]]:
    return {(one.group, one.resource, one.name, one.namespaced) for one in found.managed}


def test_manifests_of_a_bundle() -> None:
    found = objects(
        manifest("Service", "metrics"),
        manifest("NetworkPolicy", "deny", "networking.k8s.io/v1"),
        manifest("PriorityClass", "high", "scheduling.k8s.io/v1"),
        manifest("ClusterRole", "viewer", f"{RBAC}/v1", rules=[VIEW]),
        manifest("Role", "leader", f"{RBAC}/v1", rules=[LEASES]),
        manifest("Unknown", "x"),
    )
    assert managed(found) == {
        ("", "services", "metrics", True),
        ("networking.k8s.io", "networkpolicies", "deny", True),
        ("scheduling.k8s.io", "priorityclasses", "high", False),
        (RBAC, "clusterroles", "viewer", False),
        (RBAC, "roles", "leader", True),
    }
    assert (found.cluster_rules, found.install_rules, found.target_rules) == ((VIEW,), (LEASES,), ())


def test_all_documents_of_a_file_count() -> None:
    roles = [manifest("ClusterRole", name, f"{RBAC}/v1", rules=[rule]) for name, rule in (("a", VIEW), ("b", LEASES))]
    listed = {"apiVersion": "v1", "kind": "List", "items": [manifest("ClusterRole", "c", f"{RBAC}/v1", rules=[BOOKS])]}
    given = {"manifests/roles.yaml": yaml.safe_dump_all([*roles, listed]).encode()}
    found = objects(files=given)
    assert found.cluster_rules == (VIEW, LEASES, BOOKS)
    assert [each.name for each in found.managed] == ["a", "b", "c"]


def test_permissions_for_all_namespaces_become_cluster_permissions() -> None:
    found = objects(
        deployments=[{"name": "shelf", "spec": {}}],
        permissions=[{"serviceAccountName": "shelf", "rules": [LEASES]}, {"rules": [LEASES]}],
        clusterPermissions=[{"serviceAccountName": "default", "rules": [BOOKS]}],
    )
    assert managed(found) == {
        ("apps", "deployments", "shelf", True),
        ("", "serviceaccounts", "shelf", True),
        (RBAC, "clusterroles", "", False),
        (RBAC, "clusterrolebindings", "", False),
    }
    assert (found.cluster_rules, found.target_rules) == ((BOOKS, LEASES, NAMESPACES), ())


def test_permissions_for_one_namespace_stay_there() -> None:
    found = objects(permissions=[{"serviceAccountName": "shelf", "rules": [LEASES]}], all_namespaces=False)
    generated = {(RBAC, "roles", "", True), (RBAC, "rolebindings", "", True)}
    assert managed(found) == {*generated, ("", "serviceaccounts", "shelf", True)}
    assert (found.cluster_rules, found.target_rules) == ((), (LEASES,))


def test_webhooks() -> None:
    validating = {**WEBHOOK, "type": "ValidatingAdmissionWebhook", "generateName": "vshelf.example.com-"}
    conversion = {**WEBHOOK, "type": "ConversionWebhook", "generateName": "cshelf", "deploymentName": "s" * 60}
    long = "s" * 55
    assert managed(objects(webhooks=[validating, conversion])) == {
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "vshelf.example.com", False),
        ("", "services", "shelf-manager-service", True),
        ("cert-manager.io", "certificates", "shelf-manager-service-cert", True),
        ("cert-manager.io", "issuers", "shelf-manager-service-cert-selfsigned-issuer", True),
        ("", "services", f"{long}-service", True),
        ("cert-manager.io", "certificates", f"{long}-se-cert", True),
        ("cert-manager.io", "issuers", f"{'s' * 45}-selfsigned-issuer", True),
    }


def test_bound_roles() -> None:
    def binding(kind: str, role_kind: str, role: object) -> dict[str, Any]:
        return manifest(
            kind, f"{kind}-{role}", f"{RBAC}/v1", roleRef={"apiGroup": RBAC, "kind": role_kind, "name": role}
        )

    found = objects(
        manifest("ClusterRole", "own", f"{RBAC}/v1"),
        binding("ClusterRoleBinding", "ClusterRole", "own"),
        binding("ClusterRoleBinding", "ClusterRole", "system:auth-delegator"),
        binding("RoleBinding", "Role", "extension-apiserver-authentication-reader"),
        binding("RoleBinding", "ClusterRole", 7),
    )
    assert found.bound_roles == (
        ManagedObject(RBAC, "clusterroles", "system:auth-delegator", False),
        ManagedObject(RBAC, "roles", "extension-apiserver-authentication-reader", True),
    )
    cluster_role, _, role, _ = permission_manifests(EXTENSION, "shelf.v1", found)
    bind = {"apiGroups": [RBAC], "resources": ["clusterroles"], "resourceNames": ["system:auth-delegator"]}
    assert {**bind, "verbs": ["bind"]} in cluster_role["rules"]
    assert [rule["resourceNames"] for rule in role["rules"] if rule["verbs"] == ["bind"]] == [
        ["extension-apiserver-authentication-reader"]
    ]


def test_objects_of_the_installer() -> None:
    found = objects(
        manifest("Service", "metrics"),
        manifest("Service", "webhook"),
        clusterPermissions=[{"serviceAccountName": "shelf", "rules": [BOOKS]}],
    )
    cluster_role, cluster_binding, role, binding = permission_manifests(EXTENSION, "shelf.v1", found)
    subjects = [{"kind": "ServiceAccount", "name": "shelf-installer", "namespace": "shelves"}]
    assert cluster_role == {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "shelf-installer",
            "annotations": {
                "kubernetes.io/description": "Permissions to install shelf.v1; other versions may need more."
            },
        },
        "rules": [
            {
                "apiGroups": ["olm.operatorframework.io"],
                "resources": ["clusterextensions/finalizers"],
                "resourceNames": ["shelf"],
                "verbs": ["update"],
            },
            {"apiGroups": [""], "resources": ["serviceaccounts", "services"], "verbs": ["list", "watch"]},
            {"apiGroups": [RBAC], "resources": ["clusterrolebindings", "clusterroles"], "verbs": ["list", "watch"]},
            {
                "apiGroups": [RBAC],
                "resources": ["clusterrolebindings"],
                "verbs": ["create", "get", "update", "patch", "delete"],
            },
            {
                "apiGroups": [RBAC],
                "resources": ["clusterroles"],
                "verbs": ["create", "get", "update", "patch", "delete"],
            },
            BOOKS,
        ],
    }
    assert cluster_binding["roleRef"] == {"apiGroup": RBAC, "kind": "ClusterRole", "name": "shelf-installer"}
    assert cluster_binding["subjects"] == binding["subjects"] == subjects
    assert role["metadata"] == {"name": "shelf-installer", "namespace": "shelves"}
    assert role["rules"][2:] == [
        {"apiGroups": [""], "resources": ["services"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["services"],
            "resourceNames": ["metrics", "webhook"],
            "verbs": ["get", "update", "patch", "delete"],
        },
    ]


@pytest.mark.parametrize("namespace", ["shelves", "library"])
def test_operators_that_watch_one_namespace(namespace: str) -> None:
    permissions = [{"serviceAccountName": "shelf", "rules": [LEASES]}]
    found = objects(manifest("Service", "metrics"), permissions=permissions, all_namespaces=False)
    extension = replace(EXTENSION, watch_namespace=namespace)
    roles = [one for one in permission_manifests(extension, "shelf.v1", found) if one["kind"] == "Role"]

    assert [one["metadata"]["namespace"] for one in roles] == list(dict.fromkeys(["shelves", namespace]))
    assert LEASES in roles[-1]["rules"]
    assert {"rolebindings", "roles"} <= {name for rule in roles[-1]["rules"] for name in rule["resources"]}
    assert "services" in roles[0]["rules"][2]["resources"]


def test_cluster_admin() -> None:
    (binding,) = cluster_admin_manifests(EXTENSION)
    assert binding["roleRef"]["name"] == "cluster-admin"
    assert "Allows everything" in binding["metadata"]["annotations"]["kubernetes.io/description"]


def test_rules_of_wrong_types_are_ignored() -> None:
    found = objects(manifest("ClusterRole", "x", f"{RBAC}/v1", rules={"a": 1}))
    assert ([one.name for one in found.managed], found.cluster_rules) == (["x"], ())
