"""Who may do what once a bundle is installed."""

from __future__ import annotations

from typing import Any

import pytest

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.permissions import grant as module
from opmkit.bundle.permissions.grant import Grant, Interception, read_file_permissions
from opmkit.bundle.permissions.kinds import PermissionScope
from opmkit.bundle.permissions.rule import PolicyRule
from tests.kit.permissions import EVERYTHING, PODS, SECRETS, binding, crd, csv, manifest, read, role

READ_SECRETS = PolicyRule(("get",), ("",), ("secrets",))
CREATE_PODS = PolicyRule(("create",), ("",), ("pods",))
NAMESPACES = PolicyRule(("get", "list", "watch"), ("",), ("namespaces",))
RBAC, OPENSHIFT = "rbac.authorization.k8s.io/v1", "authorization.openshift.io/v1"
CLUSTER, WATCHED, OWN = PermissionScope


def bound(*objects: dict[str, Any]) -> list[Grant]:
    """Return the grants of bindings next to an operator without permissions."""
    return [each for each in read(csv(), *objects).grants if "Binding" in each.source]


def added(*objects: dict[str, Any]) -> list[Grant]:
    """Return what roles add to the permissions of those who are bound to them."""
    return [each for each in read(csv(), *objects).grants if each.source.partition(" ")[0] in ("Role", "ClusterRole")]


def test_permissions_of_the_csv() -> None:
    permissions = read(csv(cluster=[SECRETS, SECRETS], watched=[PODS]))
    assert (permissions.bundle, permissions.install_modes) == ("demo.v1.0.0", ("AllNamespaces", "OwnNamespace"))
    assert permissions.grants == (
        Grant("demo", True, CLUSTER, "clusterPermissions", (READ_SECRETS,)),
        Grant("demo", True, WATCHED, "permissions", (CREATE_PODS,)),
        Grant("demo", True, CLUSTER, "OLM", (NAMESPACES,)),
    )
    assert [each.source for each in read(csv(modes=["OwnNamespace"])).grants] == ["clusterPermissions", "permissions"]
    assert permissions.watches_all
    assert not read(csv(modes=["OwnNamespace"])).watches_all


@pytest.mark.parametrize("spec", [None, {}, {"install": None}, {"install": {"spec": None}}, {"installModes": []}])
def test_absent_fields(spec: Any) -> None:
    permissions = read({**csv(), "spec": spec})
    assert (permissions.grants, permissions.install_modes, permissions.interceptions) == ((), (), ())


def test_null_rules_and_the_default_account() -> None:
    value = csv(account=None)
    value["spec"]["install"]["spec"]["permissions"] = [{"rules": None}, None]
    value["spec"]["installModes"] = []
    subjects = [(each.subject, each.source, each.rules) for each in read(value).grants]
    assert subjects == [("default", source, ()) for source in ("clusterPermissions", "permissions", "permissions")]


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
def test_accounts_of_deployments_belong_to_the_operator(field: str) -> None:
    value = csv()
    value["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"] = {field: "pod"}
    permissions = read(value, binding("RoleBinding", "Role/r", "ServiceAccount/pod"), role("Role", "r", SECRETS))
    assert permissions.grants[-2:] == (
        Grant("pod", True, OWN, "RoleBinding bind-r", (READ_SECRETS,)),
        Grant("Users with Role r", False, OWN, "Role r", (READ_SECRETS,)),
    )


def test_bindings() -> None:
    roles = (role("Role", "r", SECRETS), role("ClusterRole", "r", PODS))
    subjects = (
        "ServiceAccount/demo",
        "ServiceAccount/other/demo",
        "ServiceAccount/agent",
        "ServiceAccount/kube-system/demo",
        "ServiceAccount/helper",
        "Group/system:authenticated",
        "User/system:serviceaccount:other:demo",
    )
    helper = manifest("ServiceAccount", "v1", "helper")
    grants = bound(*roles, helper, binding("ClusterRoleBinding", "ClusterRole/r", *subjects))
    assert [(each.subject, each.is_operator, each.is_other) for each in grants] == [
        ("demo", True, False),
        ("other/demo", True, False),
        ("agent", False, True),
        ("kube-system/demo", True, True),
        ("helper", False, False),
        ("Group system:authenticated", False, True),
        ("other/demo", True, False),
    ]
    assert {(each.scope, each.rules) for each in grants} == {(CLUSTER, (CREATE_PODS,))}
    (granted,) = bound(*roles, binding("RoleBinding", "ClusterRole/r", "User/me"))
    assert (granted.subject, granted.scope, granted.rules) == ("User me", OWN, (CREATE_PODS,))
    assert bound(*roles, {"kind": "RoleBinding", "subjects": None}) == []
    assert bound(*roles) == []


def test_roles_that_the_bundle_does_not_contain() -> None:
    (granted,) = bound(binding("RoleBinding", "Role/r", "ServiceAccount/demo"))
    assert (granted.rules, granted.unknown_role) == ((), "Role r")
    (granted,) = bound(binding("ClusterRoleBinding", "ClusterRole/cluster-admin", "ServiceAccount/demo"))
    assert (PolicyRule(("*",), ("*",), ("*",)) in granted.rules, granted.unknown_role) == (True, "")


@pytest.mark.parametrize("name", ["admin", "edit", "system:node"])
def test_roles_of_every_cluster_are_not_those_of_the_bundle(name: str) -> None:
    (granted,) = bound(role("ClusterRole", name), binding("ClusterRoleBinding", f"ClusterRole/{name}", "User/me"))
    assert granted.unknown_role == f"ClusterRole {name}"
    harmless = role("ClusterRole", "cluster-admin", PODS)
    (granted,) = bound(harmless, binding("ClusterRoleBinding", "ClusterRole/cluster-admin", "User/me"))
    assert set(granted.rules) >= {PolicyRule(("*",), ("*",), ("*",)), CREATE_PODS}


def test_duplicate_roles_are_joined() -> None:
    roles = (role("Role", "r", SECRETS), role("Role", "r", PODS))
    (granted,) = bound(*roles, binding("RoleBinding", "Role/r", "ServiceAccount/demo"))
    assert granted.rules == (READ_SECRETS, CREATE_PODS)


def test_aggregated_roles() -> None:
    rule = {
        "clusterRoleSelectors": [
            {"matchLabels": {"team": "a"}},
            {"matchExpressions": [{"key": "x", "operator": "Exists"}]},
        ]
    }
    roles = (
        role("ClusterRole", "sum", aggregationRule=rule),
        role("ClusterRole", "part", SECRETS, labels={"team": "a"}),
        role("ClusterRole", "other", PODS, labels={"team": "b"}),
    )
    (granted,) = bound(*roles, binding("ClusterRoleBinding", "ClusterRole/sum", "ServiceAccount/demo"))
    assert granted.rules == (READ_SECRETS, CREATE_PODS)  # expressions count as if they matched
    assert granted.unknown_role == "ClusterRole sum, which aggregates ClusterRoles with team=a or x Exists,"
    del rule["clusterRoleSelectors"][1]
    (granted,) = bound(*roles, binding("ClusterRoleBinding", "ClusterRole/sum", "ServiceAccount/demo"))
    assert granted.rules == (READ_SECRETS,)
    every = role("ClusterRole", "every", aggregationRule={"clusterRoleSelectors": [{}]})
    (granted,) = bound(every, binding("ClusterRoleBinding", "ClusterRole/every", "ServiceAccount/demo"))
    assert granted.unknown_role == "ClusterRole every, which aggregates ClusterRoles with any labels,"


def test_aggregated_roles_that_aggregate_others() -> None:
    def aggregate(**labels: str) -> dict[str, Any]:
        return {"clusterRoleSelectors": [{"matchLabels": labels}]}

    roles = (
        role("ClusterRole", "first", aggregationRule=aggregate(a="x")),
        role("ClusterRole", "second", aggregationRule=aggregate(b="x"), labels={"a": "x"}),
        role("ClusterRole", "third", SECRETS, aggregationRule=aggregate(a="x"), labels={"b": "x"}),
    )
    (granted,) = bound(*roles, binding("ClusterRoleBinding", "ClusterRole/first", "ServiceAccount/demo"))
    assert granted.rules == (READ_SECRETS,)


@pytest.mark.parametrize(
    "prefix",
    [
        "rbac.authorization.k8s.io/aggregate-to-",
        "authorization.openshift.io/aggregate-to-",
        "olm.opgroup.permissions/aggregate-to-",
        "aggregate-to-",
    ],
)
def test_rules_that_are_added_to_roles_of_users(prefix: str) -> None:
    labels = {f"{prefix}edit": "true", f"{prefix}view": "false", "app.kubernetes.io/name": "true"}
    any_role = "Users with ClusterRoles that aggregate"
    assert added(role("ClusterRole", "r", SECRETS, labels=labels)) == [
        Grant("Users with ClusterRole r", False, CLUSTER, "ClusterRole r", (READ_SECRETS,)),
        Grant("Users with ClusterRole edit", False, CLUSTER, "ClusterRole r", (READ_SECRETS,), is_other=True),
        Grant(f"{any_role} {prefix}view=false", False, CLUSTER, "ClusterRole r", (READ_SECRETS,)),
    ]


def test_any_label_can_be_selected() -> None:
    found = added(role("ClusterRole", "r", SECRETS, labels={"serving.knative.dev/controller": "true"}))
    subject = "Users with ClusterRoles that aggregate serving.knative.dev/controller=true"
    assert found[1] == Grant(subject, False, CLUSTER, "ClusterRole r", (READ_SECRETS,))
    assert len(added(role("Role", "r", SECRETS, labels={"a": "b"}))) == 1


@pytest.mark.parametrize(
    "name", ["system:basic-user", "system:discovery", "view", "cluster-reader", "basic-user", "system:a\nb"]
)
def test_roles_of_every_cluster_are_replaced(name: str) -> None:
    subject = f"Users with ClusterRole {name}"
    assert added(role("ClusterRole", name, SECRETS)) == [
        Grant(subject, False, CLUSTER, f"ClusterRole {name}", (READ_SECRETS,), is_other=True)
    ]


def test_roles_of_every_cluster_can_aggregate_others() -> None:
    selectors = {"clusterRoleSelectors": [{}, {"matchLabels": {"a": "x"}}]}
    (found,) = added(role("ClusterRole", "edit", SECRETS, aggregationRule=selectors))
    assert (found.rules, found.is_other) == ((READ_SECRETS,), True)
    assert found.unknown_role == "ClusterRole edit, which aggregates ClusterRoles with any labels or a=x,"


def test_labels_of_roles_of_every_cluster() -> None:
    found = added(role("ClusterRole", "edit", SECRETS, labels={"team": "a"}))
    assert [each.unknown_role for each in found] == ["", "ClusterRole edit"]


def test_roles_and_bindings_of_openshift() -> None:
    roles = (
        role("ClusterRole", "r", {"verbs": ["get"], "resources": ["secrets"]}, apiVersion=OPENSHIFT),
        role("Role", "r", SECRETS, apiVersion=RBAC),
    )
    bind = manifest("RoleBinding", OPENSHIFT, roleRef={"name": "r"}, userNames=["me"], groupNames=["all"])
    found = bound(*roles, {**bind, "subjects": [{"kind": "SystemGroup", "name": "system:authenticated"}]})
    assert [(each.subject, each.is_other) for each in found] == [
        ("SystemGroup system:authenticated", True),
        ("User me", True),
        ("Group all", True),
    ]
    assert {each.rules for each in found} == {(PolicyRule(("get",), ("*",), ("secrets",)),)}
    (granted,) = bound(*roles, {**bind, "roleRef": {"name": "r", "namespace": "x"}, "groupNames": None})
    assert granted.rules == (READ_SECRETS,)
    assert bound(*roles, {**bind, "apiVersion": RBAC}) == []


@pytest.mark.parametrize(
    ("group", "is_own"),
    [
        ("reef.io", True),
        ("logging.openshift.io", True),
        ("", False),
        ("apps", False),
        ("snapshot.storage.k8s.io", False),
        ("k8s.io", False),
        ("config.openshift.io", False),
        ("operators.coreos.com", False),
    ],
)
def test_own_groups(group: str, is_own: bool) -> None:
    permissions = read(csv(owned=[f"reefs.{group}"]), crd(group))
    assert permissions.own_groups == (frozenset({group}) if is_own else frozenset())
    assert permissions.own_definitions == (frozenset({f"reefs.{group}"}) if is_own else frozenset())
    assert read(csv(), crd(group)).own_definitions == frozenset()


def test_webhooks() -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "operations": ["UPDATE", "CREATE"]}, {"apiGroups": None}]
    kinds = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook", "ConversionWebhook")
    selector = {"matchLabels": {"app": "reef"}}
    webhooks = [{"type": kind, "generateName": kind[0], "rules": rules, "objectSelector": selector} for kind in kinds]
    permissions = read(csv(webhookdefinitions=webhooks))
    seen = permissions.interceptions
    added_by_olm = permissions.grants[-1]
    assert (added_by_olm.source, len(added_by_olm.rules)) == ("OLM", 3)
    pods = ((("",), ("pods",), ("CREATE", "UPDATE"), "app=reef", ()), ((), (), (), "app=reef", ()))
    assert seen == tuple(Interception(name, name == "M", *each) for name in "MV" for each in pods)


@pytest.mark.parametrize(
    ("resources", "covered", "others"),
    [
        (("*",), ("pods", "*"), ("pods/exec", "*/*")),
        (("*/*",), ("pods", "*", "pods/exec"), ()),
        (("pods/*",), ("pods/exec",), ("pods", "jobs/exec")),
        (("*/exec",), ("pods/exec",), ("pods", "pods/log")),
    ],
)
def test_webhooks_that_see_what_others_do(
    resources: tuple[str, ...], covered: tuple[str, ...], others: tuple[str, ...]
) -> None:
    old = Interception("a", False, ("",), resources, ("*",))
    for resource in (*covered, *others):
        assert old.covers(Interception("b", False, ("",), (resource,), ("CREATE",))) == (resource in covered)
    same = Interception("b", False, ("",), resources, ("CREATE",))
    assert not old.covers(Interception("b", True, ("",), resources, ("CREATE",)))
    assert not old.covers(Interception("b", False, ("apps",), resources, ("CREATE",)))
    assert not Interception("a", True, ("",), resources, ("*",), "app=x").covers(same)
    assert Interception("a", True, ("*",), resources, ("*",)).covers(same)
    exact = Interception("b", False, ("",), resources, ("CREATE",), is_exact=True)
    assert (same.covers(exact), exact.covers(same), exact.covers(exact)) == (True, False, True)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("install",), [], "spec.install is a list, not a mapping"),
        (
            ("install", "spec", "clusterPermissions"),
            {},
            "spec.install.spec.clusterPermissions is a mapping, not a list",
        ),
        (("install", "spec", "permissions"), ["x"], "spec.install.spec.permissions[0] is a string, not a mapping"),
        (
            ("install", "spec", "permissions"),
            [{"rules": [{"verbs": "get"}]}],
            "spec.install.spec.permissions[0].rules[0].verbs is a string, not a list",
        ),
        (
            ("install", "spec", "permissions"),
            [{"rules": [{"verbs": [1]}]}],
            "spec.install.spec.permissions[0].rules[0].verbs[0] is a number, not a string",
        ),
        (("webhookdefinitions",), [{"rules": 1}], "spec.webhookdefinitions[0].rules is a number, not a list"),
        (("installModes",), [{"supported": "yes"}], "spec.installModes[0].supported is a string, not a boolean"),
        (("Install",), {}, "spec.Install is not a field: OLM v0 reads it as install, and OLM v1 ignores it"),
        (
            ("install", "spec", "clusterPermi\u017fsions"),
            [],
            "spec.install.spec.clusterPermi\u017fsions is not a field: OLM v0 reads it as clusterPermissions, "
            "and OLM v1 ignores it",
        ),
    ],
)
def test_invalid_fields_are_located(path: tuple[str, ...], value: Any, message: str) -> None:
    changed = csv()
    owner = changed["spec"]
    for step in path[:-1]:
        owner = owner[step]
    owner[path[-1]] = value
    with pytest.raises(InvalidBundle) as raised:
        read(changed)
    assert raised.value.message == f"manifests/0.yaml:1: ClusterServiceVersion: {message}"
    assert raised.value.hint


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"kind": "Role", "rules": {}}, "Role: rules is a mapping, not a list"),
        ({"kind": "RoleBinding", "roleRef": "r"}, "RoleBinding: roleRef is a string, not a mapping"),
        ({"kind": "ClusterRole", "metadata": {"labels": {"a": 1}}}, "ClusterRole: metadata.labels.a is a number"),
        ({"kind": "Role", "Rules": []}, "Role: Rules is not a field"),
    ],
)
def test_invalid_roles_are_located(value: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidBundle, match=f"^manifests/1.yaml:1: {message}"):
        read(csv(), value)


def test_exactly_one_csv() -> None:
    with pytest.raises(InvalidBundle, match=r"^no ClusterServiceVersion found"):
        read(crd("reef.io"))
    with pytest.raises(InvalidBundle, match=r"^manifests/1.yaml:1: more than one ClusterServiceVersion"):
        read(csv(), csv())


def test_too_many_permissions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_COMBINATIONS", 10)
    read(csv(cluster=[{**EVERYTHING, "verbs": list("abcd")}]))
    with pytest.raises(InvalidBundle, match="more than 10 combinations"):
        read(csv(cluster=[{**EVERYTHING, "verbs": list("abcdefghijk")}]))
    subjects = [f"User/{number}" for number in range(20)]
    with pytest.raises(InvalidBundle, match="more than 10 combinations"):
        bound(binding("RoleBinding", "ClusterRole/system:auth-delegator", *subjects))
    with pytest.raises(InvalidBundle, match="more than 10 combinations"):
        bound(*(role("Role", str(number)) for number in range(20)))
    aggregate = role("ClusterRole", "r", aggregationRule={"clusterRoleSelectors": [{}]})
    monkeypatch.setattr(module, "MAX_AGGREGATIONS", 1)
    with pytest.raises(InvalidBundle, match="more than 1 ClusterRoles aggregate others"):
        bound(aggregate, aggregate)
    monkeypatch.setattr(module, "MAX_WEBHOOK_RULES", 1)
    with pytest.raises(InvalidBundle, match="webhooks have more than 1 rules"):
        read(csv(webhookdefinitions=[{"rules": [{}, {}]}]))


def test_all_documents_and_lists_of_files_count() -> None:
    text = """
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: demo}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleList
items:
- {metadata: {name: r}, rules: [{verbs: [get], apiGroups: [""], resources: [secrets]}]}
"""
    bind = "kind: RoleBinding\nroleRef: {kind: Role, name: r}\nsubjects: [{kind: User, name: me}]\n"
    files = {"manifests/csv.yaml": text.encode(), "manifests/.hidden.yaml": bind.encode(), "metadata/x.yaml": b"?"}
    granted, _ = read_file_permissions(files).grants
    assert (granted.subject, granted.rules) == ("User me", (READ_SECRETS,))
    with pytest.raises(InvalidBundle, match=r"^manifests/README.md:1: not a Kubernetes object"):
        read_file_permissions({**files, "manifests/README.md": b"text"})
