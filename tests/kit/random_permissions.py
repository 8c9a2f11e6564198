"""Random bundles with permissions, roles and bindings."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.kit.permissions import binding, csv, manifest, role

ACCOUNTS = ("op", "agent", "default")
RBAC = "rbac.authorization.k8s.io/v1"
SHARED, COLLECTED = "shared", {"team": "blue"}
"""A ClusterRole that others are bound to, and the labels of ClusterRoles whose rules another one collects."""
GROUPS = ("", "apps", "rbac.authorization.k8s.io", "reef.io", "*")
RESOURCES = (
    *("pods", "pods/log", "secrets", "configmaps", "nodes", "namespaces", "deployments", "deployments/scale"),
    *("*/scale", "*/log", "clusterroles", "reefs", "*"),
)
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "use", "bind", "escalate", "*")
URLS = ("/metrics", "/healthz/*", "/logs/*", "/version", "*")
_LABELS = (
    {"rbac.authorization.k8s.io/aggregate-to-view": "true"},
    {"rbac.authorization.k8s.io/aggregate-to-edit": "true"},
    {"rbac.authorization.k8s.io/aggregate-to-admin": "false"},
    {"app.kubernetes.io/name": "demo"},
    {"part": "x"},
    COLLECTED,
)
_CLUSTER_ROLES = ("r1", "r2", "r3", SHARED, "view", "edit", "system:basic-user", "system:discovery")
_BOUND = (*_CLUSTER_ROLES, "cluster-admin", "absent")
_MODES = (["AllNamespaces"], ["OwnNamespace"], ["OwnNamespace", "AllNamespaces"])


class RandomBundle:
    """The objects of a bundle that is installed in a namespace."""

    def __init__(self, seed: int, namespace: str) -> None:
        self._random = Random(seed)
        self.namespace = namespace
        self.modes = self._random.choice(_MODES)
        self.objects = [self._csv(), *self._accounts(), *self._roles(), *self._bindings(), self._marked()]

    @property
    def csv(self) -> dict[str, Any]:
        return self.objects[0]

    def _csv(self) -> dict[str, Any]:
        value = csv(modes=self.modes, pod={"serviceAccountName": self._random.choice(ACCOUNTS)})
        strategy = value["spec"]["install"]["spec"]
        for key in ("permissions", "clusterPermissions"):
            strategy[key] = [
                {"serviceAccountName": account, "rules": self._rules(urls=False)}
                for account in self._random.sample(ACCOUNTS, self._random.randint(0, 2))
            ]
        return value

    def _accounts(self) -> list[dict[str, Any]]:
        return [manifest("ServiceAccount", "v1", name) for name in self._some(("op", "agent"))]

    def _roles(self) -> list[dict[str, Any]]:
        found = []
        for name in self._some(_CLUSTER_ROLES):
            labels = self._random.choice(_LABELS) if self._random.random() < 0.5 else {}
            more: dict[str, Any] = {}
            if self._random.random() < 0.2:
                selected = self._random.choice(({"part": "x"}, COLLECTED, {}))
                more["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": selected}]}
            found.append(role("ClusterRole", name, *self._rules(urls=True), labels=labels, apiVersion=RBAC, **more))
        found += [role("Role", name, *self._rules(urls=False), apiVersion=RBAC) for name in self._some(("r1", "r2"))]
        return found

    def _bindings(self) -> list[dict[str, Any]]:
        subjects = (
            *(f"ServiceAccount/{self.namespace}/{name}" for name in ACCOUNTS),
            *("ServiceAccount/other/monitor", "ServiceAccount/kube-system/op", "User/alice", "Group/crew"),
            *("Group/system:authenticated", "Group/system:serviceaccounts", "User/system:serviceaccount:other:monitor"),
        )
        found = []
        for number in range(self._random.randint(0, 4)):
            kind = self._random.choice(("RoleBinding", "ClusterRoleBinding"))
            references = [f"ClusterRole/{name}" for name in _BOUND]
            references += [f"Role/{name}" for name in ("r1", "r2", "absent")] if kind == "RoleBinding" else []
            value = binding(kind, self._random.choice(references), *self._random.sample(subjects, 2))
            for each in (value["roleRef"], *value["subjects"]):
                if each["kind"] != "ServiceAccount":
                    each["apiGroup"] = RBAC.partition("/")[0]
            value["metadata"]["name"] = f"{self.namespace}-{number}"
            found.append({**value, "apiVersion": RBAC})
        return found

    def _marked(self) -> dict[str, Any]:
        """Return an object without permissions."""
        return manifest("ConfigMap", "v1", "demo")

    def _rules(self, *, urls: bool) -> list[dict[str, Any]]:
        return [self._rule(urls=urls) for _ in range(self._random.randint(0, 3))]

    def _rule(self, *, urls: bool) -> dict[str, Any]:
        verbs = self._some(VERBS) or ["get"]
        if urls and self._random.random() < 0.2:
            return {"verbs": verbs, "nonResourceURLs": self._some(URLS) or ["/x"]}
        names = {"resourceNames": ["a", "b"]} if self._random.random() < 0.2 else {}
        groups, resources = self._some(GROUPS[:-1]) or ["*"], self._some(RESOURCES[:-1]) or ["*"]
        return {"verbs": verbs, "apiGroups": groups, "resources": resources, **names}

    def _some(self, values: tuple[str, ...]) -> list[str]:
        return self._random.sample(values, self._random.randint(0, min(3, len(values))))
