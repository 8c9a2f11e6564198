"""Division of roles and bindings into permissions and manifests."""

from __future__ import annotations

from typing import Any

from opmkit.author.generate.manifests import divide_rbac

from .inputs import DEPLOYMENT, collect


def role(name: str, kind: str = "Role", resource: str = "pods") -> str:
    return f"""
    apiVersion: rbac.authorization.k8s.io/v1
    kind: {kind}
    metadata: {{name: {name}}}
    rules: [{{apiGroups: [""], resources: [{resource}], verbs: [get]}}]
    """


def binding(name: str, role_name: str, *accounts: str, kind: str = "RoleBinding", role_kind: str = "Role") -> str:
    subjects = ", ".join(f"{{kind: ServiceAccount, name: {account}, namespace: boats}}" for account in accounts)
    return f"""
    apiVersion: rbac.authorization.k8s.io/v1
    kind: {kind}
    metadata: {{name: {name}}}
    roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {role_kind}, name: {role_name}}}
    subjects: [{subjects}]
    """


def account(name: str) -> str:
    return f"apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}}}"


def divide(*documents: str, extra: tuple[str, ...] = ()) -> tuple[list[Any], list[Any], set[str]]:
    """Return the resources of the permissions of each account, those in the whole cluster, and the manifests."""
    found = divide_rbac(collect(DEPLOYMENT, *documents), extra)
    permissions, cluster_permissions = (
        [(one["serviceAccountName"], [rule["resources"][0] for rule in one["rules"]]) for one in part]
        for part in (found.permissions, found.cluster_permissions)
    )
    return permissions, cluster_permissions, {str(item) for item in found.manifests}


def test_roles_of_the_operator_become_permissions() -> None:
    assert divide(
        role("a"),
        role("b", resource="secrets"),
        role("c", "ClusterRole", "nodes"),
        binding("one", "a", "captain"),
        binding("two", "b", "captain"),
        binding("three", "c", "captain", kind="ClusterRoleBinding", role_kind="ClusterRole"),
        account("captain"),
    ) == ([("captain", ["pods", "secrets"])], [("captain", ["nodes"])], set())


def test_cluster_roles_can_be_bound_in_a_namespace() -> None:
    documents = role("c", "ClusterRole"), binding("one", "c", "captain", role_kind="ClusterRole")
    assert divide(*documents) == ([("captain", ["pods"])], [], set())


def test_objects_of_other_accounts_become_manifests() -> None:
    documents = role("a"), binding("one", "a", "sailor"), account("sailor"), account("captain")
    assert divide(*documents) == ([], [], {"Role a", "RoleBinding one", "ServiceAccount sailor"})
    assert divide(*documents, extra=("sailor",)) == ([("sailor", ["pods"])], [], set())


def test_roles_of_written_bindings_are_written() -> None:
    assert divide(role("a"), binding("one", "a", "captain", "sailor")) == (
        [("captain", ["pods"])],
        [],
        {"Role a", "RoleBinding one"},
    )


def test_unbound_roles_and_bindings_of_unknown_roles_become_manifests() -> None:
    documents = role("a"), role("v", "ClusterRole"), binding("one", "absent", "captain"), binding("two", "a")
    assert divide(*documents) == ([], [], {"Role a", "ClusterRole v", "RoleBinding one"})


def test_cluster_role_bindings_do_not_bind_roles() -> None:
    documents = role("a"), binding("one", "a", "captain", kind="ClusterRoleBinding")
    assert divide(*documents) == ([], [], {"Role a", "ClusterRoleBinding one"})


def test_deployments_without_account_use_the_default_one() -> None:
    deployment = DEPLOYMENT.replace("serviceAccountName: captain", "").replace("boat-operator", "other")
    documents = deployment, role("a"), binding("one", "a", "default")
    assert divide(*documents) == ([("default", ["pods"])], [], set())


def test_warnings_about_namespaces() -> None:
    elsewhere = binding("one", "a", "captain").replace("{name: one}", "{name: one, namespace: kube-system}")
    found = divide_rbac(collect(DEPLOYMENT, role("a"), elsewhere, binding("two", "a", "captain", "cook")))
    assert found.warnings == (
        "Role a: the operator gets its permissions in the namespaces that it watches, not in kube-system, where"
        " RoleBinding one grants them",
        "RoleBinding two: binds accounts of namespace boats, even if the operator is installed in another one",
    )
