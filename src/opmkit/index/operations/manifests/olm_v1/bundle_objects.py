"""The objects that OLM v1 creates for a ``registry+v1`` bundle, and the ServiceAccount that installs them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct

from opmkit.bundle.api_types.decode import DecodeMode, decode_struct
from opmkit.bundle.kinds import CRD_KIND
from opmkit.bundle.rendering.certificates import CertificateProvider, WebhookService
from opmkit.bundle.rendering.objects import account_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.bundle.rendering.registry_v1 import RegistryV1
    from opmkit.index.operations.manifests.olm_v1.cluster_extension import ClusterExtension


Rule = dict[str, Any]
"""A PolicyRule of Kubernetes."""

RBAC = "rbac.authorization.k8s.io"
CERTIFICATES = "cert-manager.io"
_WEBHOOKS = "admissionregistration.k8s.io"
_WEBHOOK_RESOURCES = {
    "ValidatingAdmissionWebhook": "validatingwebhookconfigurations",
    "MutatingAdmissionWebhook": "mutatingwebhookconfigurations",
}
_CLUSTER_SCOPED = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "ConsoleCLIDownload": "consoleclidownloads",
    "ConsoleLink": "consolelinks",
    "ConsolePlugin": "consoleplugins",
    "ConsoleQuickStart": "consolequickstarts",
    "ConsoleYAMLSample": "consoleyamlsamples",
    CRD_KIND: "customresourcedefinitions",
    "PriorityClass": "priorityclasses",
}
_NAMESPACED = {
    "ConfigMap": "configmaps",
    "NetworkPolicy": "networkpolicies",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "PodMonitor": "podmonitors",
    "PrometheusRule": "prometheusrules",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "ServiceMonitor": "servicemonitors",
    "VerticalPodAutoscaler": "verticalpodautoscalers",
}


class ManagedObject(Struct, frozen=True, order=True):
    """An object that OLM creates, by its API group and resource; the name is "" if OLM chooses it."""

    group: str
    resource: str
    name: str
    namespaced: bool


class BundleObjects(Struct, frozen=True):
    """Objects and rules that OLM v1 creates for a bundle.

    Attributes:
        managed: Objects, sorted and each once.
        cluster_rules: Rules that it grants in all namespaces.
        install_rules: Rules that it grants in the namespace that it installs to.
        target_rules: Rules that it grants in the namespace that the operator watches, if it does not watch all.
        bound_roles: Objects for the existing Roles and ClusterRoles that it binds.
    """

    managed: tuple[ManagedObject, ...]
    cluster_rules: tuple[Rule, ...]
    install_rules: tuple[Rule, ...]
    target_rules: tuple[Rule, ...]
    bound_roles: tuple[ManagedObject, ...]


def bundle_objects(bundle: RegistryV1, *, all_namespaces: bool) -> BundleObjects:
    """Return the objects of a bundle.

    The rules are those of operator-controller's renderer (v1.9). For an operator that watches all namespaces, the
    permissions of the ClusterServiceVersion become cluster permissions, with access to namespaces.
    """
    install, webhooks = bundle.strategy, bundle.webhooks
    manifests = (*bundle.definitions, *bundle.others)
    others = [one for one in manifests if one["kind"] in _CLUSTER_SCOPED | _NAMESPACED]
    permissions: list[Mapping[str, Any]] = install.get("permissions") or []
    cluster_permissions: list[Mapping[str, Any]] = install.get("clusterPermissions") or []
    cluster_rules = [rule for one in cluster_permissions for rule in one.get("rules") or ()]
    target_rules = [rule for one in permissions for rule in one.get("rules") or ()]
    if permissions and all_namespaces:
        namespaces = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}
        cluster_rules, target_rules = [*cluster_rules, *target_rules, namespaces], []
    managed = {
        *(_managed(one) for one in others),
        *_deployments(install),
        *_service_accounts([*permissions, *cluster_permissions]),
        *_webhook_objects(webhooks),
        *_generated_roles(bool(permissions), bool(cluster_permissions), all_namespaces=all_namespaces),
    }
    cluster_rules += [rule for one in others if one["kind"] == "ClusterRole" for rule in _rules(one)]
    install_rules = [rule for one in others if one["kind"] == "Role" for rule in _rules(one)]
    names = {(one["kind"], _name(one)) for one in others}
    bound = {role for one in others if one["kind"].endswith("RoleBinding") for role in _bound_role(one, names)}
    return BundleObjects(
        managed=tuple(sorted(managed)),
        cluster_rules=_unique(cluster_rules),
        install_rules=_unique(install_rules),
        target_rules=_unique(target_rules),
        bound_roles=tuple(sorted(bound)),
    )


def _managed(manifest: Mapping[str, Any]) -> ManagedObject:
    kind, group = manifest["kind"], str(manifest.get("apiVersion", "")).rpartition("/")[0]
    is_namespaced = kind in _NAMESPACED
    resource = _NAMESPACED[kind] if is_namespaced else _CLUSTER_SCOPED[kind]
    return ManagedObject(group, resource, _name(manifest), is_namespaced)


def _deployments(install: Mapping[str, Any]) -> Iterator[ManagedObject]:
    for deployment in install.get("deployments") or ():
        yield ManagedObject("apps", "deployments", deployment.get("name", ""), True)


def _service_accounts(permissions: list[Mapping[str, Any]]) -> Iterator[ManagedObject]:
    """Yield the service accounts of permissions, except the one that every namespace has."""
    for permission in permissions:
        name = account_of(permission)
        if name != "default":
            yield ManagedObject("", "serviceaccounts", name, True)


def _webhook_objects(webhooks: list[Mapping[str, Any]]) -> Iterator[ManagedObject]:
    """Yield the configurations of webhooks, their services, and the certificates of cert-manager."""
    for webhook in webhooks:
        if resource := _WEBHOOK_RESOURCES.get(webhook.get("type", "")):
            name = webhook.get("generateName", "").removesuffix("-")
            yield ManagedObject(_WEBHOOKS, resource, name, False)
        service = WebhookService.of_deployment(webhook.get("deploymentName", ""), "", CertificateProvider.CERT_MANAGER)
        yield ManagedObject("", "services", service.name, True)
        yield ManagedObject(CERTIFICATES, "certificates", service.certificate, True)
        yield ManagedObject(CERTIFICATES, "issuers", service.issuer, True)


def _generated_roles(
    has_permissions: bool, has_cluster_permissions: bool, *, all_namespaces: bool
) -> Iterator[ManagedObject]:
    """Yield the roles and bindings of the permissions, whose names end with a hash."""
    if has_cluster_permissions or (has_permissions and all_namespaces):
        yield ManagedObject(RBAC, "clusterroles", "", False)
        yield ManagedObject(RBAC, "clusterrolebindings", "", False)
    if has_permissions and not all_namespaces:
        yield ManagedObject(RBAC, "roles", "", True)
        yield ManagedObject(RBAC, "rolebindings", "", True)


def _bound_role(binding: Mapping[str, Any], known: set[tuple[str, str]]) -> Iterator[ManagedObject]:
    """Yield the role that a binding refers to, unless it is in the bundle."""
    reference = binding.get("roleRef")
    reference = reference if isinstance(reference, dict) else {}
    kind, name = reference.get("kind"), reference.get("name")
    if kind in {"Role", "ClusterRole"} and isinstance(name, str) and (kind, name) not in known:
        yield ManagedObject(RBAC, f"{kind.lower()}s", name, binding["kind"] == "RoleBinding")


def _rules(role: Mapping[str, Any]) -> list[Rule]:
    rules: list[Rule] = decode_struct(dict(role), role["kind"], DecodeMode.OBJECT).value.get("rules") or []
    return rules


def _name(manifest: Mapping[str, Any]) -> str:
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _unique(rules: list[Rule]) -> tuple[Rule, ...]:
    return tuple({orjson.dumps(rule, option=orjson.OPT_SORT_KEYS): rule for rule in rules}.values())


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
