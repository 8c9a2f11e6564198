"""The ServiceAccount that OLM v1 up to 1.10 installs a package with, and its permissions."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from opmkit.index.operations.manifests.olm_v1.bundle_objects import RBAC, ManagedObject, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.index.operations.manifests.olm_v1.bundle_objects import BundleObjects
    from opmkit.index.operations.manifests.olm_v1.cluster_extension import ClusterExtension

Manifest = dict[str, Any]

_DESCRIPTION = "kubernetes.io/description"
_MANAGE = ["get", "update", "patch", "delete"]
_CLUSTER_ADMIN = "cluster-admin"


def service_account(extension: ClusterExtension) -> Manifest:
    """Return the ServiceAccount of an extension."""
    return _object("v1", "ServiceAccount", extension.service_account, extension.namespace)


def cluster_admin_manifests(extension: ClusterExtension) -> list[Manifest]:
    """Return the objects that give all permissions to the installer."""
    binding = _binding(extension, "ClusterRole", _CLUSTER_ADMIN, "")
    text = f"Allows everything, to install {extension.package}; restrict it to the permissions that the bundle needs."
    binding["metadata"]["annotations"] = {_DESCRIPTION: text}
    return [binding]


def permission_manifests(extension: ClusterExtension, bundle: str, objects: BundleObjects) -> list[Manifest]:
    """Return the objects that give the installer the permissions that a bundle needs, and no others.

    They are those that operator-controller checks before it installs: to create and change each object, to list and
    watch the types of objects, and all rules that the bundle grants, because Kubernetes prevents escalation. The names
    of roles for the permissions of the ClusterServiceVersion are not known: they can all be changed, but only to rules
    that the installer has.

    Args:
        extension: The extension.
        bundle: Name of the bundle, for a description.
        objects: The objects of the bundle.
    """
    by_scope: dict[bool, list[ManagedObject]] = {False: [], True: []}
    for managed in objects.managed:
        by_scope[managed.namespaced].append(managed)
    in_target = [one for one in by_scope[True] if _is_generated(one)]
    in_namespace = [one for one in by_scope[True] if not _is_generated(one)]
    finalizers = {"apiGroups": ["olm.operatorframework.io"], "resources": ["clusterextensions/finalizers"]}
    cluster_rules = [
        {**finalizers, "resourceNames": [extension.name], "verbs": ["update"]},
        *_list_rules(objects.managed),
        *_manage_rules(by_scope[False]),
        *_bind_rules(objects.bound_roles, namespaced=False),
        *objects.cluster_rules,
    ]
    namespace_rules = {
        extension.namespace: [
            *_manage_rules(in_namespace),
            *_bind_rules(objects.bound_roles, namespaced=True),
            *objects.install_rules,
        ]
    }
    if extension.watch_namespace:
        rules = namespace_rules.setdefault(extension.watch_namespace, [])
        rules += [*_manage_rules(in_target), *objects.target_rules]
    role = _role(extension, "ClusterRole", "", cluster_rules)
    role["metadata"]["annotations"] = {_DESCRIPTION: f"Permissions to install {bundle}; other versions may need more."}
    manifests = [role, _binding(extension, "ClusterRole", extension.service_account, "")]
    for namespace, rules in namespace_rules.items():
        if rules:
            manifests.append(_role(extension, "Role", namespace, rules))
            manifests.append(_binding(extension, "Role", extension.service_account, namespace))
    return manifests


def _is_generated(managed: ManagedObject) -> bool:
    return managed.group == RBAC and not managed.name


def _list_rules(objects: Iterable[ManagedObject]) -> Iterator[Rule]:
    """Yield a rule for each API group: OLM watches what it manages in all namespaces."""
    for group, members in groupby(sorted(objects), lambda one: one.group):
        resources = sorted({one.resource for one in members})
        yield {"apiGroups": [group], "resources": resources, "verbs": ["list", "watch"]}


def _manage_rules(objects: Iterable[ManagedObject]) -> Iterator[Rule]:
    """Yield the rules to create objects, and to change those with the same names."""
    for (group, resource), members in groupby(sorted(objects), lambda one: (one.group, one.resource)):
        names = [one.name for one in members]
        rule = {"apiGroups": [group], "resources": [resource]}
        if "" in names:
            yield {**rule, "verbs": ["create", *_MANAGE]}
        else:
            yield {**rule, "verbs": ["create"]}
            yield {**rule, "resourceNames": names, "verbs": list(_MANAGE)}


def _bind_rules(roles: Iterable[ManagedObject], *, namespaced: bool) -> Iterator[Rule]:
    for role in roles:
        if role.namespaced == namespaced:
            yield {"apiGroups": [RBAC], "resources": [role.resource], "resourceNames": [role.name], "verbs": ["bind"]}


def _role(extension: ClusterExtension, kind: str, namespace: str, rules: list[Rule]) -> Manifest:
    return {**_object(f"{RBAC}/v1", kind, extension.service_account, namespace), "rules": rules}


def _binding(extension: ClusterExtension, role_kind: str, role: str, namespace: str) -> Manifest:
    subject = {"kind": "ServiceAccount", "name": extension.service_account, "namespace": extension.namespace}
    return {
        **_object(f"{RBAC}/v1", f"{role_kind}Binding", extension.service_account, namespace),
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": [subject],
    }


def _object(api_version: str, kind: str, name: str, namespace: str) -> Manifest:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
