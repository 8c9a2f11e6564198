"""Dangerous permissions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from opmkit.bundle.permissions.danger import find_dangers, find_interceptions, sort_dangers
from opmkit.bundle.permissions.dangerous_rules import DANGEROUS_RULES, DangerousRule
from opmkit.bundle.permissions.grant import Grant, Interception
from opmkit.bundle.permissions.kinds import Danger, DangerKind, PermissionScope, allowed_kinds, find_unknown_kind
from opmkit.bundle.permissions.rule import PolicyRule
from tests.kit.permissions import rule

CLUSTER, WATCHED, OWN = PermissionScope
RBAC, ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"


def dangers(value: dict[str, Any], scope: PermissionScope = CLUSTER) -> list[str]:
    """Return kind and text of the dangers of a rule, for an operator that owns ``reefs.reef.io``."""
    grants = [Grant("demo", True, scope, "test", (PolicyRule.from_decoded(value),))]
    return [f"{each.kind}: {each.may}" for each in sort_dangers(find_dangers(grants, {"reefs.reef.io"}))]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (rule("*", "*", "*"), ["everything: do everything"]),
        (rule("get", "secrets"), ["secrets: read all secrets"]),
        (rule("patch", "secrets"), ["secrets: change all secrets"]),
        (rule("get", "secrets", resourceNames=["a", "b"]), ["secrets: read secrets named a, b"]),
        (rule("escalate", "clusterroles", RBAC), ["escalate: add any permission to all roles"]),
        (rule("create", "subscriptions", "operators.coreos.com"), ["escalate: install operators with any permission"]),
        (rule("bind", "roles", RBAC, resourceNames=["x"]), ["bind: bind roles named x"]),
        (rule("impersonate", "groups"), ["impersonate: act as all users, groups or service accounts"]),
        (
            rule("impersonate", "userextras/scopes", "authentication.k8s.io"),
            ["impersonate: act with all user IDs or extra fields of users"],
        ),
        (
            rule("impersonate:user-info", "users", "authentication.k8s.io"),
            ["impersonate: act within limits as all users, groups, service accounts or nodes"],
        ),
        (
            rule("update", "mutatingwebhookconfigurations", ADMISSION),
            ["webhooks: change all admission webhooks and policies"],
        ),
        (rule("get", "nodes/proxy"), ["nodes: call the kubelets of all nodes"]),
        (rule("patch", "nodes"), ["nodes: change all nodes"]),
        (rule("create", "persistentvolumes"), ["nodes: mount directories of nodes as persistent volumes"]),
        (rule("get", "pods/exec"), ["exec: run commands in the containers of all pods"]),
        (rule("create", "pods/portforward"), ["exec: connect to the ports of all pods"]),
        (rule("create", "serviceaccounts/token"), ["tokens: issue tokens of all service accounts"]),
        (rule("delete", "rolebindings", RBAC), ["roles: change all roles and bindings"]),
        (
            rule("use", "securitycontextconstraints", "security.openshift.io", resourceNames=["privileged"]),
            ["security-context: use security context constraints named privileged"],
        ),
        (rule("patch", "namespaces"), ["security-context: change the pod security of all namespaces"]),
        (
            rule("approve", "signers", "certificates.k8s.io"),
            ["certificates: approve and sign for all signers"],
        ),
        (
            rule("create", "customresourcedefinitions", "apiextensions.k8s.io"),
            ["apis: change all CustomResourceDefinitions"],
        ),
        (rule("create", "pods"), ["workloads: run pods"]),
        (rule("update", "deployments", "apps"), ["workloads: run pods"]),
        (rule("get", "*", "batch"), ["wildcard: get all resources of batch"]),
        (rule("*", "events"), ["wildcard: do everything with events"]),
        (rule("create", "*/exec"), ["exec: run commands in the containers of all pods"]),
        (
            rule("create", "pods/*"),
            ["exec: run commands in the containers of all pods", "exec: connect to the ports of all pods"],
        ),
        (rule("*", "*", "reef.io"), ["wildcard: do everything with all resources of reef.io"]),
        (rule("get", "*", "reef.io"), ["wildcard: get all resources of reef.io"]),
        (rule("*", "reefs widgets", "reef.io"), ["wildcard: do everything with widgets of reef.io"]),
        (rule("*", "reefs", apiGroups=["", "reef.io"]), ["wildcard: do everything with reefs"]),
        (
            rule("get", nonResourceURLs=["*"]),
            ["wildcard: get all URLs of the API server", "nodes: read logs or profiles of the API server by its URLs"],
        ),
        (rule("get", nonResourceURLs=["/logs/*"]), ["nodes: read logs or profiles of the API server by its URLs"]),
        (rule("get", nonResourceURLs=["/de*"]), ["nodes: read logs or profiles of the API server by its URLs"]),
    ],
)
def test_dangerous(value: dict[str, Any], expected: list[str]) -> None:
    assert dangers(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        rule("get list watch", "pods configmaps"),
        rule("*", "reefs reefs/status reefs/finalizers", "reef.io"),
        rule("get", "nodes"),
        rule("use", "pods"),
        rule("create", "subjectaccessreviews", "authorization.k8s.io"),
        rule("escalate", "roles", "reef.io"),
        rule("", "secrets"),
        rule("get", nonResourceURLs=["/metrics", "/healthz/*", "/lo"]),
        rule("get", "*/status"),
        rule("get", "secrets", apiGroups=[]),
        rule("get list watch", "clusteroperators oauths", "config.openshift.io"),
        rule("get", "deployments/scale", "apps"),
        # every operator creates its own; Kubernetes does not warn of them
        rule("create", "services"),
        rule("patch", "serviceaccounts"),
    ],
)
def test_harmless(value: dict[str, Any]) -> None:
    assert dangers(value) == []


@pytest.mark.parametrize(
    ("kind", "verb", "group", "resource"),
    [
        ("workloads", "create", "extensions", "deployments"),
        ("workloads", "patch", "extensions", "daemonsets"),
        ("workloads", "create", "apps", "controllerrevisions"),
        ("escalate", "create", "core.rukpak.io", "bundledeployments"),
        ("escalate", "patch", "catalogd.operatorframework.io", "catalogs"),
        ("security-context", "update", "policy", "podsecuritypolicies"),
        ("certificates", "create", "certificates.k8s.io", "certificatesigningrequests/nodeclient"),
        ("workloads", "create", "template.openshift.io", "templates"),
        ("workloads", "create", "", "podtemplates"),
        ("workloads", "create", "", "replicationcontrollers"),
        ("workloads", "update", "apps", "deployments/scale"),
        ("workloads", "patch", "apps", "*/scale"),
        ("workloads", "create", "build.openshift.io", "buildconfigs"),
        ("workloads", "create", "build.openshift.io", "buildconfigs/instantiate"),
        ("workloads", "create", "monitoring.coreos.com", "prometheuses"),
        ("workloads", "update", "image.openshift.io", "imagestreams"),
        ("security-context", "create", "", "namespaces"),
        ("security-context", "create", "project.openshift.io", "projectrequests"),
        ("security-context", "use", "extensions", "podsecuritypolicies"),
        ("nodes", "create", "storage.k8s.io", "volumeattachments"),
        ("nodes", "patch", "machineconfiguration.openshift.io", "machineconfigs"),
        ("nodes", "create", "machine.openshift.io", "machinesets"),
        ("nodes", "create", "", "nodes/*"),
        ("nodes", "get", "", "nodes/log"),
        ("impersonate", "impersonate", "user.openshift.io", "systemusers"),
        ("nodes", "update", "tuned.openshift.io", "profiles"),
        ("network", "patch", "", "services/status"),
        ("network", "create", "route.openshift.io", "routes/custom-host"),
        ("impersonate", "create", "oauth.openshift.io", "oauthclients"),
        ("secrets", "get", "oauth.openshift.io", "oauthclients"),
        ("impersonate", "create", "user.openshift.io", "useridentitymappings"),
        ("impersonate", "update", "user.openshift.io", "groups"),
        ("impersonate", "update", "config.openshift.io", "oauths"),
        ("escalate", "patch", "operators.coreos.com", "installplans/status"),
        ("escalate", "patch", "operators.coreos.com", "installplans/*"),
        ("escalate", "update", "operators.coreos.com", "*/status"),
        ("escalate", "patch", "operators.coreos.com", "catalogsources/status"),
        ("escalate", "patch", "operators.coreos.com", "subscriptions/status"),
        ("escalate", "patch", "operators.coreos.com", "operatorgroups/status"),
        ("escalate", "patch", "olm.operatorframework.io", "clustercatalogs/status"),
        ("escalate", "patch", "olm.operatorframework.io", "clusterextensionrevisions/status"),
        ("escalate", "patch", "olm.operatorframework.io", "*/status"),
        ("security-context", "update", "", "namespaces/finalize"),
        ("security-context", "patch", "", "namespaces/status"),
        ("security-context", "update", "", "namespaces/*"),
        ("security-context", "update", "", "*/finalize"),
        ("security-context", "patch", "", "*/status"),
        ("security-context", "update", "security.internal.openshift.io", "rangeallocations"),
        ("network", "patch", "", "pods/status"),
        ("network", "create", "ingress.operator.openshift.io", "dnsrecords"),
        ("network", "create", "k8s.ovn.org", "adminpolicybasedexternalroutes"),
        ("network", "create", "k8s.cni.cncf.io", "network-attachment-definitions"),
        ("secrets", "get", "image.openshift.io", "imagestreams/secrets"),
        ("secrets", "get", "image.openshift.io", "imagestreams/layers"),
        ("secrets", "get", "image.openshift.io", "imagestreams/*"),
        ("secrets", "get", "image.openshift.io", "*/secrets"),
        ("workloads", "update", "image.openshift.io", "imagestreams/layers"),
        ("workloads", "update", "image.openshift.io", "*/layers"),
        ("workloads", "patch", "image.openshift.io", "imagestreams/status"),
        ("workloads", "patch", "image.openshift.io", "images"),
        ("secrets", "create", "monitoring.coreos.com", "alertmanagerconfigs"),
        ("secrets", "create", "sharedresource.openshift.io", "sharedsecrets"),
        ("secrets", "use", "sharedresource.openshift.io", "sharedsecrets"),
        ("nodes", "create", "metal3.io", "baremetalhosts"),
        ("nodes", "create", "bootstrap.cluster.x-k8s.io", "kubeadmconfigs"),
        ("nodes", "create", "infrastructure.cluster.x-k8s.io", "metal3machines"),
        ("nodes", "create", "controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes"),
        ("nodes", "create", "addons.cluster.x-k8s.io", "clusterresourcesets"),
        ("nodes", "create", "snapshot.storage.k8s.io", "volumesnapshotcontents"),
        ("platform", "create", "scheduling.k8s.io", "priorityclasses"),
        ("exec", "delete", "", "pods/proxy"),
        ("exec", "delete", "", "services/proxy"),
        ("certificates", "update", "certificates.k8s.io", "podcertificaterequests/status"),
        ("secrets", "*", "", "secrets"),
        ("secrets", "get", "*", "secrets"),
        ("secrets", "list", "", "*"),
        ("secrets", "create", "monitoring.coreos.com", "podmonitors"),
        ("secrets", "create", "cloudcredential.openshift.io", "credentialsrequests"),
        ("certificates", "attest", "certificates.k8s.io", "signers"),
        ("certificates", "sign", "certificates.k8s.io", "signers"),
        ("certificates", "patch", "certificates.k8s.io", "certificatesigningrequests/approval"),
        ("certificates", "create", "certificates.k8s.io", "clustertrustbundles"),
        ("platform", "patch", "config.openshift.io", "clusteroperators"),
        ("platform", "update", "config.openshift.io", "proxies"),
        ("platform", "create", "console.openshift.io", "consoleplugins"),
        ("escalate", "create", "operators.coreos.com", "clusterserviceversions"),
        ("escalate", "patch", "operators.coreos.com", "catalogsources"),
        ("escalate", "create", "operators.coreos.com", "operatorgroups"),
        ("escalate", "create", "olm.operatorframework.io", "clustercatalogs"),
        ("escalate", "create", "olm.operatorframework.io", "clusterextensions"),
        ("tokens", "create", "", "serviceaccounts/*"),
        ("tokens", "create", "storage.k8s.io", "csidrivers"),
        ("exec", "get", "", "services/proxy"),
        ("network", "update", "discovery.k8s.io", "endpointslices"),
        ("escalate", "*", "authorization.openshift.io", "roles"),
    ],
)
def test_dangers_of_kubernetes_openshift_and_olm(kind: str, verb: str, group: str, resource: str) -> None:
    for names in ([], ["x"]):
        assert kind in {each.partition(":")[0] for each in dangers(rule(verb, resource, group, resourceNames=names))}


def test_permissions_of_others() -> None:
    rules = (
        PolicyRule(("get",), ("",), ("pods",)),
        PolicyRule(("get",), ("reef.io",), ("reefs",)),
        PolicyRule(("get",), urls=("/metrics",)),
    )
    others = Grant("Group all", False, CLUSTER, "", rules, is_other=True)
    assert [str(each) for each in find_dangers([others], {"reefs.reef.io"})] == [
        "get pods in every namespace",
        "get /metrics in every namespace",
    ]
    assert list(find_dangers([Grant("demo", True, CLUSTER, "", rules)], ())) == []


def test_a_rule_with_a_wildcard_has_all_its_dangers() -> None:
    kinds = {DangerKind(each.partition(":")[0]) for each in dangers(rule("*", "*", ""))}
    assert kinds >= {DangerKind.SECRETS, DangerKind.WILDCARD, DangerKind.NODES, DangerKind.EXEC, DangerKind.TOKENS}
    assert [each.kind for each in find_dangers([], ())] == []


def test_scopes() -> None:
    found = [dangers(rule("patch", "nodes"), scope) for scope in PermissionScope]
    assert found == [["nodes: change all nodes"], [], []]
    machines = rule("create", "machinesets", "machine.openshift.io")
    assert all(
        dangers(machines, scope) == ["nodes: change all machines and their settings"] for scope in PermissionScope
    )
    texts = [str(Danger(DangerKind.SECRETS, "read all secrets", scope, "demo")) for scope in PermissionScope]
    assert texts == [
        "read all secrets in every namespace",
        "read all secrets in the watched namespaces",
        "read all secrets in its own namespace",
    ]
    assert str(Danger(DangerKind.NODES, "change all nodes", CLUSTER, "demo")) == "change all nodes"


def test_the_most_dangerous_kinds_and_widest_scopes_are_first() -> None:
    rules = (PolicyRule(("create",), ("",), ("pods",)), PolicyRule(("get",), ("",), ("secrets",)))
    grants = [Grant("a", True, OWN, "", rules), Grant("a", True, CLUSTER, "", (*rules, *rules))]
    grants.append(Grant("b", False, OWN, "", (), "ClusterRole x"))
    assert [(each.kind.value, each.scope) for each in sort_dangers(find_dangers(grants, ()))] == [
        ("secrets", CLUSTER),
        ("secrets", OWN),
        ("workloads", CLUSTER),
        ("workloads", OWN),
        ("unknown-role", OWN),
    ]


def test_webhooks_that_see_resources_of_others() -> None:
    seen = [
        Interception("own", True, ("reef.io",), ("reefs", "reefs/status"), ("CREATE",)),
        Interception("group", True, ("reef.io",), ("*",), ("CREATE",)),
        Interception("pods", True, ("", "reef.io"), ("pods",), ("CREATE", "UPDATE"), "app=x"),
        Interception("all", False, ("*",), ("*/*",), ("*",)),
    ]
    assert [(each.subject, each.may) for each in find_interceptions(seen, {"reefs.reef.io"})] == [
        ("group", "change all resources of reef.io of others (webhook, on create)"),
        ("pods", "change pods of the core group, reef.io of others with app=x (webhook, on create, update)"),
        ("all", "reject all resources of all API groups of others (webhook, on *)"),
    ]


def test_the_documentation_lists_all_kinds_and_rules() -> None:
    text = (Path(__file__).parents[3] / "docs" / "permissions.md").read_text()
    _, _, section = text.partition("## Dangerous permissions")
    kinds, _, rules = section.partition("## Limits")[0].partition("### Rules")
    assert re.findall(r"^\| `(.*?)`", kinds, re.MULTILINE) == list(DangerKind)
    assert [line for line in rules.splitlines() if line.startswith("| `")] == list(map(documented, DANGEROUS_RULES))


def documented(found: DangerousRule) -> str:
    """Return the row of the documentation for a dangerous rule."""
    values = (found.groups, found.resources, found.verbs)
    groups, resources, verbs = (", ".join(f"`{each}`" if each else "core" for each in column) for column in values)
    return f"| `{found.kind}` | {groups} | {resources} | {verbs} | {found.why} |"


def test_kinds_that_include_others() -> None:
    found = {kind: Danger(kind, "", CLUSTER, "demo") for kind in DangerKind}
    for kind in (DangerKind.EVERYTHING, DangerKind.UNKNOWN_ROLE):
        assert found[kind].is_of(["secrets"])
        assert found[kind].is_of([kind])
        assert not found[kind].is_of(["others", "unknown-object"])
    assert not found[DangerKind.SECRETS].is_of(["bind", "everything"])
    assert not found[DangerKind.EVERYTHING].is_of([])


def test_names_of_kinds() -> None:
    assert find_unknown_kind(["secrets", "demo/secrets"]) is None
    for name in ("", "any", "demo/any", "/secrets", "demo/", "Secrets"):
        assert find_unknown_kind(["secrets", name]) == name
    assert allowed_kinds(["secrets", "demo/bind", "other/roles"], "demo") == {"secrets", "bind"}
