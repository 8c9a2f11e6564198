"""Objects of bundles with permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.bundle.permissions.grant import Permissions, PlacedObject, read_permissions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALL_MODES = ("OwnNamespace", "AllNamespaces")
SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


def rule(verbs: str, resources: str = "", group: str = "", **more: Any) -> dict[str, Any]:
    """Return a rule; verbs and resources are separated by spaces."""
    found: dict[str, Any] = {"verbs": verbs.split()}
    return found | ({"apiGroups": [group], "resources": resources.split()} if resources else {}) | more


def csv(
    *,
    cluster: Sequence[Mapping[str, Any]] = (),
    watched: Sequence[Mapping[str, Any]] = (),
    modes: Sequence[str] = ALL_MODES,
    name: str = "demo.v1.0.0",
    account: str | None = "demo",
    owned: Sequence[str] = (),
    pod: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a ClusterServiceVersion with rules of one service account; ``owned`` are names of definitions."""
    owner = {} if account is None else {"serviceAccountName": account}
    strategy: dict[str, Any] = {
        "deployments": [{"name": "demo", "spec": {"template": {"spec": {**owner, **(pod or {})}}}}],
        "clusterPermissions": [{**owner, "rules": list(cluster)}],
        "permissions": [{**owner, "rules": list(watched)}],
    }
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": name},
        "spec": {
            "installModes": [{"type": mode, "supported": True} for mode in modes],
            "install": {"strategy": "deployment", "spec": strategy},
            "customresourcedefinitions": {"owned": [{"name": name} for name in owned]},
            **spec,
        },
    }


def role(
    kind: str, name: str, *rules: Mapping[str, Any], labels: Mapping[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    """Return a Role or ClusterRole."""
    return {"kind": kind, "metadata": {"name": name, "labels": dict(labels or {})}, "rules": list(rules), **more}


def binding(kind: str, reference: str, *subjects: str) -> dict[str, Any]:
    """Return a binding of a role, as ``KIND/NAME``, to subjects, as ``KIND/NAME`` or ``KIND/NAMESPACE/NAME``."""
    role_kind, _, name = reference.partition("/")
    found = []
    for subject in subjects:
        subject_kind, *namespace, subject_name = subject.split("/")
        found.append({"kind": subject_kind, "name": subject_name, **({"namespace": namespace[0]} if namespace else {})})
    return {
        "kind": kind,
        "metadata": {"name": f"bind-{name}"},
        "roleRef": {"kind": role_kind, "name": name},
        "subjects": found,
    }


def crd(group: str, plural: str = "reefs", **spec: Any) -> dict[str, Any]:
    """Return the parts of a CustomResourceDefinition that determine the API."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": {"plural": plural}, **spec},
    }


def manifest(kind: str, api_version: str, name: str = "x", **more: Any) -> dict[str, Any]:
    """Return an object."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}


def read(*objects: Mapping[str, Any]) -> Permissions:
    """Return the permissions of objects, each in a separate file."""
    return read_permissions(PlacedObject(f"manifests/{number}.yaml:1", each) for number, each in enumerate(objects))
