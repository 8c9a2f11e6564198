"""Resources that the server has: those built in, and those of CustomResourceDefinitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_BUILT_IN = """
v1 Namespace namespaces cluster
v1 Node nodes cluster
v1 Pod pods
v1 ConfigMap configmaps
v1 Secret secrets
v1 Service services
v1 ServiceAccount serviceaccounts
v1 Event events
v1 PersistentVolumeClaim persistentvolumeclaims
v1 ResourceQuota resourcequotas
apps/v1 Deployment deployments
apps/v1 ReplicaSet replicasets
apps/v1 StatefulSet statefulsets
apps/v1 DaemonSet daemonsets
batch/v1 Job jobs
batch/v1 CronJob cronjobs
policy/v1 PodDisruptionBudget poddisruptionbudgets
networking.k8s.io/v1 NetworkPolicy networkpolicies
networking.k8s.io/v1 Ingress ingresses
rbac.authorization.k8s.io/v1 Role roles
rbac.authorization.k8s.io/v1 RoleBinding rolebindings
rbac.authorization.k8s.io/v1 ClusterRole clusterroles cluster
rbac.authorization.k8s.io/v1 ClusterRoleBinding clusterrolebindings cluster
scheduling.k8s.io/v1 PriorityClass priorityclasses cluster
coordination.k8s.io/v1 Lease leases
apiregistration.k8s.io/v1 APIService apiservices cluster
apiextensions.k8s.io/v1 CustomResourceDefinition customresourcedefinitions cluster
admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration validatingwebhookconfigurations cluster
admissionregistration.k8s.io/v1 MutatingWebhookConfiguration mutatingwebhookconfigurations cluster
"""
_OLM = """
operators.coreos.com/v1alpha1 CatalogSource catalogsources
operators.coreos.com/v1alpha1 Subscription subscriptions
operators.coreos.com/v1alpha1 InstallPlan installplans
operators.coreos.com/v1alpha1 ClusterServiceVersion clusterserviceversions
operators.coreos.com/v1 OperatorGroup operatorgroups
operators.coreos.com/v1 Operator operators cluster
operators.coreos.com/v1 OLMConfig olmconfigs cluster
operators.coreos.com/v2 OperatorCondition operatorconditions
packages.operators.coreos.com/v1 PackageManifest packagemanifests
"""
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


@dataclass(frozen=True)
class ResourceType:
    """A resource in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    has_status: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def _parse(table: str) -> list[ResourceType]:
    types = []
    for line in table.strip().splitlines():
        api_version, kind, plural, *scope = line.split()
        group, _, version = api_version.rpartition("/")
        has_status = kind != "ConfigMap" and "rbac" not in group
        types.append(ResourceType(group, version, kind, plural, not scope, has_status))
    return types


class Resources:
    """The resources of a server; with ``olm`` those of OLM, as if its CRDs were installed."""

    def __init__(self, *, olm: bool = False) -> None:
        self._types = {
            (each.group, each.version, each.plural): each for each in _parse(_BUILT_IN) + (_parse(_OLM) if olm else [])
        }

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        return self._types.get((group, version, plural))

    def of_kind(self, kind: str, api_version: str = "") -> ResourceType:
        """Return the type of a kind; raise KeyError if the server does not have it."""
        for each in self._types.values():
            if each.kind == kind and api_version in ("", each.api_version):
                return each
        raise KeyError(f"{api_version} {kind}")

    def of(self, group: str, plural: str) -> ResourceType:
        return next(each for each in self._types.values() if (each.group, each.plural) == (group, plural))

    def add_definition(self, crd: dict[str, Any]) -> None:
        """Add the versions that a CustomResourceDefinition serves."""
        spec = crd["spec"]
        for version in spec.get("versions") or []:
            if version.get("served", True):
                names, group = spec["names"], spec["group"]
                self._types[group, version["name"], names["plural"]] = ResourceType(
                    group,
                    version["name"],
                    names["kind"],
                    names["plural"],
                    spec["scope"] == "Namespaced",
                    "status" in (version.get("subresources") or {}),
                )

    def remove_definition(self, crd: dict[str, Any]) -> None:
        spec = crd["spec"]
        target = (spec["group"], spec["names"]["plural"])
        self._types = {key: each for key, each in self._types.items() if (each.group, each.plural) != target}

    def document(self, path: str) -> dict[str, Any] | None:
        """Return the discovery document at a path, None if it does not exist."""
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            groups = sorted({each.group for each in self._types.values() if each.group})
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [self._group(group) for group in groups]}
        if path == "/version":
            return {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
        parts = path.strip("/").split("/")
        if parts[0] == "apis" and len(parts) == 2:
            group = self._group(parts[1])
            return {"kind": "APIGroup", "apiVersion": "v1", **group} if group["versions"] else None
        if (parts[0], len(parts)) not in (("api", 2), ("apis", 3)):
            return None
        api_version = "/".join(parts[1:])
        types = [each for each in self._types.values() if each.api_version == api_version]
        entries = [
            {"name": each.plural, "singularName": each.kind.lower(), "namespaced": each.namespaced}
            | {"kind": each.kind, "verbs": _VERBS}
            for each in types
        ]
        with_status = [{**entry, "name": f"{entry['name']}/status"} for entry in entries]
        listed = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version}
        return {**listed, "resources": entries + with_status} if types else None

    def _group(self, name: str) -> dict[str, Any]:
        versions = sorted({each.version for each in self._types.values() if each.group == name})
        entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
        return {"name": name, "versions": entries, "preferredVersion": entries[0] if entries else {}}
