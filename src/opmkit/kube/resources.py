"""Resources of the Kubernetes API, and those of OLM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object in JSON types."""
ALL_NAMESPACES = "*"
FIELD_MANAGER = "opm"
"""Manager of the fields that this client writes."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A type of objects in the Kubernetes API.

    Attributes:
        group: API group, or "" for the core group.
        plural: Name of the resource in paths, such as ``configmaps``.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """Name of the resource with its group, such as ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_RBAC = "rbac.authorization.k8s.io"
_OLM = "operators.coreos.com"

POD = Resource("", "v1", "Pod", "pods")
CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")
SECRET = Resource("", "v1", "Secret", "secrets")
SERVICE = Resource("", "v1", "Service", "services")
SERVICE_ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts")
EVENT = Resource("", "v1", "Event", "events")
NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
DEPLOYMENT = Resource("apps", "v1", "Deployment", "deployments")
JOB = Resource("batch", "v1", "Job", "jobs")
NETWORK_POLICY = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
ROLE = Resource(_RBAC, "v1", "Role", "roles")
ROLE_BINDING = Resource(_RBAC, "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = Resource(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Resource(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
CRD = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
API_SERVICE = Resource("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)

CATALOG_SOURCE = Resource(_OLM, "v1alpha1", "CatalogSource", "catalogsources")
SUBSCRIPTION = Resource(_OLM, "v1alpha1", "Subscription", "subscriptions")
INSTALL_PLAN = Resource(_OLM, "v1alpha1", "InstallPlan", "installplans")
CSV = Resource(_OLM, "v1alpha1", "ClusterServiceVersion", "clusterserviceversions")
OPERATOR_GROUP = Resource(_OLM, "v1", "OperatorGroup", "operatorgroups")
OLM_CONFIG = Resource(_OLM, "v1", "OLMConfig", "olmconfigs", namespaced=False)
OPERATOR = Resource(_OLM, "v1", "Operator", "operators", namespaced=False)
PACKAGE_MANIFEST = Resource("packages.operators.coreos.com", "v1", "PackageManifest", "packagemanifests")

_KNOWN = {(value.api_version, value.kind): value for value in list(globals().values()) if isinstance(value, Resource)}


def find_known(api_version: str, kind: str) -> Resource | None:
    """Return the resource of a kind if it is one of this module."""
    return _KNOWN.get((api_version, kind))
