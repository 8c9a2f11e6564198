"""Reports of permissions, and the difference between versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from opmkit.bundle.permissions.kinds import PermissionScope
from opmkit.bundle.permissions.report import PermissionReport, compare_permissions
from opmkit.bundle.permissions.rule import PolicyRule
from tests.kit.permissions import EVERYTHING, PODS, SECRETS, binding, crd, csv, manifest, read, role, rule

if TYPE_CHECKING:
    from opmkit.bundle.permissions.grant import Permissions

CLUSTER, WATCHED, OWN = PermissionScope
READ_SECRETS = PolicyRule(("get",), ("",), ("secrets",))
NODES = rule("patch", "nodes")
DEMO, ROOT = "ServiceAccount/demo", "ClusterRole/cluster-admin"


def gained(old: Permissions, new: Permissions) -> list[str]:
    """Return subject, text and kind of the dangers that a version adds."""
    return [f"{each.subject}: {each} ({each.kind})" for each in compare_permissions(old, new).gained_dangers]


def test_reports() -> None:
    report = PermissionReport.of(read(csv(watched=[SECRETS, EVERYTHING])))
    assert [(each.kind.value, each.scope) for each in report.dangers] == [("everything", CLUSTER), ("secrets", CLUSTER)]
    limited = PermissionReport.of(read(csv(watched=[SECRETS, NODES], modes=["OwnNamespace"])))
    assert [(each.kind.value, each.scope) for each in limited.dangers] == [("secrets", WATCHED)]
    result = report.to_dict()
    assert list(result) == [
        *("bundle", "install_modes", "own_groups", "grants", "interceptions"),
        *("own_definitions", "objects", "dangers"),
    ]
    assert result["grants"][1] == {
        "subject": "demo",
        "is_operator": True,
        "scope": "watched-namespaces",
        "source": "permissions",
        "rules": [
            {"verbs": ["get"], "groups": [""], "resources": ["secrets"], "names": [], "urls": []},
            {"verbs": ["*"], "groups": ["*"], "resources": ["*"], "names": [], "urls": []},
        ],
        "unknown_role": "",
        "is_other": False,
    }
    assert [(each["kind"], each["name"]) for each in result["objects"]] == [
        ("ClusterServiceVersion", "demo.v1.0.0"),
        ("Deployment", "demo"),
    ]


def test_equal_permissions() -> None:
    old, new = read(csv(cluster=[SECRETS, PODS])), read(csv(cluster=[PODS], watched=[SECRETS]))
    assert not compare_permissions(old, old)
    diff = compare_permissions(old, new)
    assert (diff.gained, diff.gained_dangers) == ((), ())
    assert not gained(read(csv(cluster=[EVERYTHING])), old)


def test_the_difference_has_both_directions() -> None:
    old = read(csv(cluster=[SECRETS]))
    new = read(csv(cluster=[PODS, {**SECRETS, "verbs": ["get", "list"]}], name="demo.v2.0.0"))
    diff = compare_permissions(old, new)
    assert (diff.old, diff.new, diff.lost, diff.lost_dangers) == ("demo.v1.0.0", "demo.v2.0.0", (), ())
    (grant,) = diff.gained
    assert grant.rules == (PolicyRule(("create",), ("",), ("pods",)), PolicyRule(("list",), ("",), ("secrets",)))
    assert gained(old, new) == [
        "demo: read all secrets in every namespace (secrets)",
        "demo: run pods in every namespace (workloads)",
    ]
    back = compare_permissions(new, old)
    assert (back.gained, back.lost, back.lost_dangers) == ((), diff.gained, diff.gained_dangers)
    assert diff.to_dict()["gained_dangers"][0]["kind"] == "secrets"


def test_all_service_accounts_of_the_operator_count() -> None:
    old = read(csv(cluster=[SECRETS]))
    new = read(csv(cluster=[SECRETS], account="renamed"))
    text = "the bundle: run pods as service account renamed (Deployment demo) in its own namespace (tokens)"
    assert gained(old, new) == [text]
    assert gained(read(csv(cluster=[SECRETS]), manifest("ServiceAccount", "v1", "renamed")), new) == []
    assert gained(new, read(csv(account=None))) == []


def _pod(**context: Any) -> dict[str, Any]:
    return csv(pod={"containers": [{"name": "x", "securityContext": context}]})


def _mount(*, read_only: bool) -> dict[str, Any]:
    mounts = [{"name": "x", "mountPath": "/x", "readOnly": read_only}]
    return csv(
        pod={
            "volumes": [{"name": "x", "hostPath": {"path": "/etc"}}],
            "containers": [{"name": "x", "volumeMounts": mounts}],
        }
    )


def _port(port: int) -> dict[str, Any]:
    return csv(pod={"containers": [{"name": "x", "ports": [{"hostPort": port}]}]})


def _monitor(**endpoint: Any) -> dict[str, Any]:
    return manifest("ServiceMonitor", "monitoring.coreos.com/v1", spec={"endpoints": [endpoint]})


def _credentials(name: str) -> dict[str, Any]:
    return _monitor(authorization={"credentials": {"name": name, "key": "token"}})


def _plugin(authorization: str) -> dict[str, Any]:
    return manifest("ConsolePlugin", "console.openshift.io/v1", spec={"proxy": [{"authorization": authorization}]})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (_mount(read_only=True), _mount(read_only=False)),
        (_pod(seLinuxOptions={"type": "a_t"}), _pod(seLinuxOptions={"type": "spc_t"})),
        (_port(8080), _port(443)),
        (_pod(seccompProfile={"type": "Unconfined"}), _pod(appArmorProfile={"type": "Unconfined"})),
        (_credentials("a"), _credentials("b")),
        (_monitor(bearerTokenFile="/a"), _monitor(bearerTokenFile="/etc/b")),
        (_plugin("None"), _plugin("UserToken")),
    ],
)
def test_more_power_of_the_same_object(old: dict[str, Any], new: dict[str, Any]) -> None:
    more = [] if old["kind"] == "ClusterServiceVersion" else [csv()]
    assert len(gained(read(*more, old), read(*more, new))) == 1
    assert gained(read(*more, new), read(*more, new)) == []


def test_webhooks_that_see_equivalent_requests() -> None:
    rules = [{"apiGroups": ["apps"], "resources": ["deployments"], "operations": ["CREATE"]}]
    webhook = {"type": "MutatingAdmissionWebhook", "generateName": "m", "rules": rules}
    exact = read(csv(webhookdefinitions=[{**webhook, "matchPolicy": "Exact"}]))
    for policy in ({}, {"matchPolicy": "Equivalent"}):
        wider = read(csv(webhookdefinitions=[{**webhook, **policy}]))
        assert len(gained(exact, wider)) == 1
        assert gained(wider, exact) == []


def test_install_modes_that_watch_other_namespaces() -> None:
    old, own = ["OwnNamespace"], read(csv(watched=[SECRETS], modes=["OwnNamespace"]))
    for modes in (["SingleNamespace"], ["MultiNamespace"], ["OwnNamespace", "MultiNamespace"]):
        wider = read(csv(watched=[SECRETS], modes=modes))
        assert gained(own, wider) == ["demo: read all secrets in the watched namespaces (secrets)"]
        assert gained(wider, own) == gained(wider, wider) == []
    assert gained(read(csv(cluster=[SECRETS], modes=old)), wider) == []


def test_a_known_role_for_all_users_is_not_unknown() -> None:
    bound = binding("ClusterRoleBinding", "ClusterRole/system:discovery", DEMO)
    assert gained(read(csv()), read(csv(), bound)) == []


@pytest.mark.parametrize("account", ["default", "builder", "deployer", "pipeline", "", None])
def test_shared_service_accounts_gain_what_the_operator_had(account: str | None) -> None:
    old = read(csv(cluster=[PODS]))
    shared = {} if account is None else {"serviceAccountName": account}
    value = csv(cluster=[PODS])
    strategy = value["spec"]["install"]["spec"]
    strategy["clusterPermissions"].append({**shared, "rules": [PODS]})
    name = account or "default"
    new = read(value)
    assert gained(old, new) == [
        f"{name}: create pods in every namespace (others)",
        f"{name}: run pods in every namespace (workloads)",
    ]
    assert gained(new, new) == gained(new, old) == []
    bound = binding("ClusterRoleBinding", "ClusterRole/r", f"ServiceAccount/ns/{name}")
    assert f"ns/{name}: create pods in every namespace (others)" in gained(
        new, read(value, bound, role("ClusterRole", "r", PODS))
    )


def test_a_wider_scope() -> None:
    limited = ["OwnNamespace"]
    watched, cluster = csv(watched=[SECRETS], modes=limited), csv(cluster=[SECRETS], modes=limited)
    assert gained(read(watched), read(cluster)) == ["demo: read all secrets in every namespace (secrets)"]
    assert gained(read(cluster), read(watched)) == []
    every = csv(watched=[SECRETS])
    assert gained(read(watched), read(every)) == ["demo: read all secrets in every namespace (secrets)"]
    assert gained(read(every), read(watched)) == []
    only_all = ["AllNamespaces"]
    assert gained(read(csv(watched=[SECRETS], modes=only_all)), read(csv(cluster=[SECRETS], modes=limited))) == []
    assert gained(read(every), read(csv(cluster=[SECRETS]))) == ["demo: read all secrets in every namespace (secrets)"]


def test_the_same_rule_in_a_wider_scope_is_not_hidden_by_a_narrow_one() -> None:
    old = csv(modes=["OwnNamespace"])
    new = csv(watched=[NODES], modes=["OwnNamespace"])
    bound = (role("ClusterRole", "r", NODES), binding("ClusterRoleBinding", "ClusterRole/r", DEMO))
    assert gained(read(old), read(new)) == []
    assert gained(read(old), read(new, *bound)) == [
        "demo: change all nodes (nodes)",
        "Users with ClusterRole r: change all nodes (nodes)",
    ]


@pytest.mark.parametrize("subject", ["ServiceAccount/kube-system/demo", "Group/all", "ServiceAccount/agent"])
def test_permissions_of_others_are_gained_by_the_operator(subject: str) -> None:
    others = binding("ClusterRoleBinding", ROOT, subject)
    assert gained(read(csv(), others), read(csv(cluster=[EVERYTHING]))) == [
        "demo: do everything in every namespace (everything)"
    ]
    name = subject.partition("/")[2] if subject.startswith("Service") else subject.replace("/", " ")
    assert gained(read(csv(cluster=[EVERYTHING])), read(csv(), others)) == [
        f"{name}: do everything in every namespace (everything)",
        f"{name}: do everything with all resources of all API groups in every namespace (others)",
    ]
    assert gained(read(csv(), others), read(csv(), others)) == []


def test_unknown_roles() -> None:
    own = binding("RoleBinding", "ClusterRole/x", DEMO)
    wide = binding("ClusterRoleBinding", "ClusterRole/x", DEMO)
    text = "demo: do what ClusterRole x permits {} (unknown-role)"
    assert gained(read(csv()), read(csv(), own, own)) == [text.format("in its own namespace")]
    assert gained(read(csv(), own), read(csv(), wide)) == [text.format("in every namespace")]
    assert gained(read(csv(), wide), read(csv(), own)) == []
    diff = compare_permissions(read(csv()), read(csv(), own))
    assert [(each.rules, each.unknown_role) for each in diff.gained] == [((), "ClusterRole x")]


def test_aggregated_roles_with_other_labels() -> None:
    def aggregate(**labels: str) -> list[dict[str, Any]]:
        selectors = {"clusterRoleSelectors": [{"matchLabels": labels}]}
        return [
            csv(),
            role("ClusterRole", "r", aggregationRule=selectors),
            binding("RoleBinding", "ClusterRole/r", DEMO),
        ]

    assert gained(read(*aggregate(team="a")), read(*aggregate(team="a"))) == []
    assert gained(read(*aggregate(team="a")), read(*aggregate())) == [
        "Users with ClusterRole r: do what ClusterRole r, which aggregates ClusterRoles with any labels, permits in "
        "every namespace (unknown-role)",
        "demo: do what ClusterRole r, which aggregates ClusterRoles with any labels, permits in its own namespace "
        "(unknown-role)",
    ]


def test_webhooks() -> None:
    def webhook(resources: list[str], kind: str = "Validating", **more: Any) -> Permissions:
        rules = [{"apiGroups": [""], "resources": resources, "operations": ["CREATE"]}]
        found = {"type": f"{kind}AdmissionWebhook", "generateName": "w", "rules": rules, **more}
        return read(csv(webhookdefinitions=[found]))

    old = webhook(["pods", "services"])
    assert gained(old, webhook(["pods"])) == gained(old, old) == []
    assert gained(old, webhook(["pods", "nodes"])) == [
        "w: reject nodes, pods of the core group of others (webhook, on create) (webhooks)".replace(
            "nodes, pods of the core group", "nodes, pods"
        )
    ]
    assert len(gained(old, webhook(["pods"], "Mutating"))) == 1
    selected = webhook(["pods"], objectSelector={"matchLabels": {"app": "x"}})
    assert (gained(old, selected), len(gained(selected, old))) == ([], 1)
    assert compare_permissions(selected, read(csv())).lost_dangers


@pytest.mark.parametrize(("field", "narrow", "wide"), [("apiVersions", ["v1"], ["*"]), ("scope", "Cluster", None)])
def test_webhooks_that_see_more_objects(field: str, narrow: Any, wide: Any) -> None:
    def webhook(value: Any) -> Permissions:
        rules = [{"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"], field: value}]
        found = {"type": "ValidatingAdmissionWebhook", "generateName": "w", "rules": rules}
        return read(csv(webhookdefinitions=[found]))

    assert len(gained(webhook(narrow), webhook(wide))) == 1
    assert gained(webhook(wide), webhook(narrow)) == []


def test_definitions_of_the_new_version_count() -> None:
    reefs = rule("*", "reefs", "reef.io")
    owned = csv(cluster=[reefs], owned=["reefs.reef.io"])
    before = read(csv(owned=["crabs.reef.io"]), crd("reef.io", "crabs"))
    assert gained(before, read(owned, crd("reef.io"))) == []
    assert gained(read(csv()), read(owned, crd("reef.io"))) == [
        "the bundle: define resources of API group reef.io (apis)"
    ]
    assert len(gained(before, read(csv(cluster=[reefs])))) == 1
    everything = csv(cluster=[rule("*", "*", "reef.io")], owned=["reefs.reef.io"])
    assert gained(read(owned, crd("reef.io")), read(everything, crd("reef.io"))) == [
        "demo: do everything with all resources of reef.io in every namespace (wildcard)"
    ]


def test_dangers_of_objects_are_gained_and_lost() -> None:
    pod = manifest("Pod", "v1", "miner")
    text = "the bundle: install Pod miner, whose effect is not known (unknown-object)"
    assert gained(read(csv()), read(csv(), pod)) == [text]
    assert gained(read(csv(), pod), read(csv(), pod)) == gained(read(csv(), pod), read(csv())) == []
    assert len(compare_permissions(read(csv(), pod), read(csv())).lost_dangers) == 1
    assert compare_permissions(read(csv()), read(csv(), pod))
    assert gained(read(csv(), pod), read(csv(), {**pod, "spec": {}})) == [text]
