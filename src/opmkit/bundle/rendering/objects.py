"""The objects that OLM v1 applies for a bundle.

They equal those of operator-controller 1.11 (rukpak/render/registryv1/generators), names included. Where its order is
random, objects are sorted by name.
"""

from __future__ import annotations

import hashlib
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct

from opmkit.bundle.api_types.encode import encode_decoded
from opmkit.bundle.errors import BundleError
from opmkit.bundle.kinds import CRD_KIND, NAMESPACED_KINDS
from opmkit.bundle.kubernetes_names import dns1123_label
from opmkit.bundle.rendering.certificates import CertificateProvider, WebhookService, with_suffix
from opmkit.bundle.rendering.config import configure_deployment
from opmkit.bundle.rendering.registry_v1 import ALL_NAMESPACES, object_name
from opmkit.bundle.rendering.support import CONVERSION, MUTATING, VALIDATING, find_unsupported, unsupported_namespaces
from opmkit.documents.json_value import escape_html

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.bundle.rendering.registry_v1 import RegistryV1

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_NAMESPACE_RULE = {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}
"""What operators that watch all namespaces may do in addition."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class UnsupportedBundle(BundleError):
    """OLM v1 does not install the bundle, or not in these namespaces."""


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """Where and how to install a bundle.

    Attributes:
        namespace: The namespace of the operator.
        watch_namespaces: The namespaces to watch; none for all namespaces, if the operator supports it.
        deployment: Changes of the deployments, see `InstallConfig`.
        certificates: The provider of the certificates of webhooks.

    Raises:
        BundleError: A namespace has an invalid name.
    """

    namespace: str
    watch_namespaces: tuple[str, ...] = ()
    deployment: Mapping[str, Any] = field(default_factory=dict)
    certificates: CertificateProvider = CertificateProvider.CERT_MANAGER

    def __post_init__(self) -> None:
        for name in (self.namespace, *self.watch_namespaces):
            if problems := dns1123_label(name):
                raise BundleError(f"invalid namespace {name!r}: {problems[0]}", hint="pass the name of a namespace")


def render_objects(bundle: RegistryV1, request: RenderRequest) -> list[dict[str, Any]]:
    """Return the objects in the order in which OLM v1 generates them, in JSON types.

    Raises:
        UnsupportedBundle: OLM v1 does not install the bundle, or not in these namespaces.
    """
    require_supported(bundle)
    targets = request.watch_namespaces or (("",) if ALL_NAMESPACES in bundle.install_modes else ())
    require_namespaces(bundle, request.namespace, targets)
    return generate_objects(bundle, request, targets)


def require_supported(bundle: RegistryV1) -> None:
    """Check that OLM v1 installs a bundle in some namespaces.

    Raises:
        UnsupportedBundle: It does not.
    """
    problems = list(find_unsupported(bundle))
    if problems:
        lines = [f"{problem.path or bundle.csv_path}: {problem.message}" for problem in problems]
        raise UnsupportedBundle(lines[0], details=lines[1:], hint=problems[0].hint)


def require_namespaces(bundle: RegistryV1, namespace: str, targets: Sequence[str]) -> None:
    """Check that an operator in a namespace can watch others; "" stands for all.

    Raises:
        UnsupportedBundle: It cannot.
    """
    if problem := unsupported_namespaces(bundle, namespace, targets):
        raise UnsupportedBundle(f"{bundle.csv_path}: {problem}", hint="pass namespaces that it can watch")


def generate_objects(bundle: RegistryV1, request: RenderRequest, targets: Sequence[str]) -> list[dict[str, Any]]:
    """Return the objects of a supported bundle; ``targets`` are the namespaces to watch, "" for all."""
    return list(_Renderer(bundle, request, targets).objects())


class _Renderer(Struct, frozen=True):
    """Generates the objects of a bundle; ``targets`` are the namespaces to watch, "" for all."""

    bundle: RegistryV1
    request: RenderRequest
    targets: Sequence[str]

    def objects(self) -> Iterator[dict[str, Any]]:
        """Yield all objects."""
        yield from self._service_accounts()
        yield from self._roles()
        yield from self._cluster_roles()
        yield from self._definitions()
        yield from self._others()
        yield from self._deployments()
        yield from self._webhook_configurations(VALIDATING, "ValidatingWebhookConfiguration")
        yield from self._webhook_configurations(MUTATING, "MutatingWebhookConfiguration")
        yield from self._services()
        for deployment in sorted({each.get("deploymentName", "") for each in self.bundle.webhooks}):
            yield from self._service(deployment).objects()

    @property
    def _watches_all(self) -> bool:
        return list(self.targets) == [""]

    @property
    def _permissions(self) -> list[Mapping[str, Any]]:
        return list(self.bundle.strategy.get("permissions") or ())

    @property
    def _cluster_permissions(self) -> list[Mapping[str, Any]]:
        return list(self.bundle.strategy.get("clusterPermissions") or ())

    def _service(self, deployment: str) -> WebhookService:
        return WebhookService.of_deployment(deployment, self.request.namespace, self.request.certificates)

    def _service_accounts(self) -> Iterator[dict[str, Any]]:
        permissions = (*self._permissions, *self._cluster_permissions)
        for name in sorted({account_of(each) for each in permissions} - {"default"}):
            yield _encode("v1", "ServiceAccount", name, self.request.namespace)

    def _roles(self) -> Iterator[dict[str, Any]]:
        for namespace in () if self._watches_all else self.targets:
            for permission in self._permissions:
                yield from self._role("Role", permission, namespace)

    def _cluster_roles(self) -> Iterator[dict[str, Any]]:
        promoted = self._permissions if self._watches_all else []
        for permission in self._cluster_permissions:
            yield from self._role("ClusterRole", permission)
        for permission in promoted:
            yield from self._role(
                "ClusterRole", {**permission, "rules": [*(permission.get("rules") or ()), _NAMESPACE_RULE]}
            )

    def _role(self, kind: str, permission: Mapping[str, Any], namespace: str = "") -> Iterator[dict[str, Any]]:
        account = account_of(permission)
        name = generated_name(f"{self.bundle.name}-{account}", permission)
        subject = {"kind": "ServiceAccount", "name": account, "namespace": self.request.namespace}
        yield _encode(f"{_RBAC}/v1", kind, name, namespace, rules=permission.get("rules"))
        reference = {"apiGroup": _RBAC, "kind": kind, "name": name}
        yield _encode(f"{_RBAC}/v1", f"{kind}Binding", name, namespace, subjects=[subject], roleRef=reference)

    def _definitions(self) -> Iterator[dict[str, Any]]:
        converters = {
            name: webhook
            for webhook in self.bundle.webhooks
            if webhook.get("type") == CONVERSION
            for name in webhook.get("conversionCRDs") or ()
        }
        for definition in self.bundle.definitions:
            webhook = converters.get(object_name(definition))
            yield encode_decoded(self._with_conversion(definition, webhook) if webhook else definition, CRD_KIND)

    def _with_conversion(self, definition: Mapping[str, Any], webhook: Mapping[str, Any]) -> Mapping[str, Any]:
        service = self._service(webhook.get("deploymentName", ""))
        reference = self._reference(service, webhook.get("webhookPath", "/"), webhook)
        conversion = {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": reference},
                "conversionReviewVersions": webhook.get("admissionReviewVersions"),
            },
        }
        metadata = _annotated(definition.get("metadata", {}), service.client_annotations)
        return {**definition, "metadata": metadata, "spec": {**definition.get("spec", {}), "conversion": conversion}}

    def _reference(self, service: WebhookService, path: str | None, webhook: Mapping[str, Any]) -> dict[str, Any]:
        given = {"path": path} if path is not None else {}
        return {"namespace": service.namespace, "name": service.name, **given, "port": webhook.get("containerPort", 0)}

    def _others(self) -> Iterator[dict[str, Any]]:
        for value in self.bundle.others:
            metadata = value.get("metadata", {})
            if value["kind"] in NAMESPACED_KINDS and isinstance(metadata, dict):
                yield deepcopy({**value, "metadata": {**metadata, "namespace": self.request.namespace}})
            else:  # Go does not set a field of null
                yield deepcopy(dict(value))

    def _deployments(self) -> Iterator[dict[str, Any]]:
        with_webhooks = {webhook.get("deploymentName", "") for webhook in self.bundle.webhooks}
        for each in self.bundle.strategy.get("deployments") or ():
            name = each.get("name", "")
            spec = deepcopy(dict(each.get("spec", {})))
            metadata = {"name": name, "namespace": self.request.namespace, "labels": each.get("label")}
            deployment = {"metadata": metadata, "spec": {**spec, "revisionHistoryLimit": 1}}
            self._annotate_template(deployment["spec"])
            if name in with_webhooks:
                self._service(name).mount(deployment["spec"]["template"].setdefault("spec", {}))
            configure_deployment(deployment, self.request.deployment)
            yield encode_decoded({"apiVersion": "apps/v1", "kind": "Deployment", **deployment}, "Deployment")

    def _annotate_template(self, spec: dict[str, Any]) -> None:
        """Add the annotations of the ClusterServiceVersion and those of an OperatorGroup to the pods."""
        template = spec.setdefault("template", {})
        metadata = template.setdefault("metadata", {})
        metadata["annotations"] = {
            **(self.bundle.csv.get("metadata", {}).get("annotations") or {}),
            **(metadata.get("annotations") or {}),
            "olm.targetNamespaces": ",".join(self.targets),
            "olm.operatorNamespace": self.request.namespace,
        }

    def _webhook_configurations(self, webhook_type: str, kind: str) -> Iterator[dict[str, Any]]:
        fields = _WEBHOOK_FIELDS - ({"reinvocationPolicy"} if webhook_type == VALIDATING else set())
        for webhook in self.bundle.webhooks:
            if webhook.get("type") != webhook_type:
                continue
            service = self._service(webhook.get("deploymentName", ""))
            name = str(webhook.get("generateName", "")).removesuffix("-")
            configured = {
                "name": name,
                **{key: value for key, value in webhook.items() if key in fields},
                "clientConfig": {"service": self._reference(service, webhook.get("webhookPath"), webhook)},
                **self._namespace_selector(),
            }
            value = _encode(f"{_ADMISSION}/v1", kind, name, self.request.namespace, webhooks=[configured])
            yield {**value, "metadata": _annotated(value["metadata"], service.client_annotations)}

    def _namespace_selector(self) -> dict[str, Any]:
        if not self.targets or "" in self.targets:
            return {}
        watched = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(self.targets)}
        return {"namespaceSelector": {"matchExpressions": [watched]}}

    def _services(self) -> Iterator[dict[str, Any]]:
        for deployment in self.bundle.strategy.get("deployments") or ():
            name = deployment.get("name", "")
            webhooks = [webhook for webhook in self.bundle.webhooks if webhook.get("deploymentName", "") == name]
            if webhooks:
                service = self._service(name)
                ports = {orjson.dumps(port): port for port in map(_service_port, webhooks)}
                selector = (deployment.get("spec", {}).get("selector") or {}).get("matchLabels")
                spec = {"ports": sorted(ports.values(), key=_port_order), "selector": selector}
                value = _encode("v1", "Service", service.name, self.request.namespace, spec=spec)
                yield {**value, "metadata": _annotated(value["metadata"], service.service_annotations)}


_WEBHOOK_FIELDS = frozenset(
    {
        "rules",
        "failurePolicy",
        "matchPolicy",
        "objectSelector",
        "sideEffects",
        "timeoutSeconds",
        "admissionReviewVersions",
        "reinvocationPolicy",
    }
)
"""Fields of webhook definitions that are those of webhook configurations."""


def account_of(permission: Mapping[str, Any]) -> str:
    """Return the service account of a permission."""
    return str(permission.get("serviceAccountName") or "default")


def generated_name(base: str, permission: Mapping[str, Any]) -> str:
    """Return the name of the role for a permission: a base and a hash of the permission."""
    encoded = encode_decoded(permission, "StrategyDeploymentPermissions")
    digest = hashlib.sha224(escape_html(orjson.dumps(encoded)) + b"\n").digest()
    number, digits = int.from_bytes(digest), ""
    while number:
        number, rest = divmod(number, len(_DIGITS))
        digits = _DIGITS[rest] + digits
    return with_suffix(base, digits)


def _service_port(webhook: Mapping[str, Any]) -> dict[str, Any]:
    port = webhook.get("containerPort", 0)
    port = port if port > 0 else 443
    target = webhook.get("targetPort")
    return {"name": str(port), "port": port, "targetPort": port if target is None else target}


def _port_order(port: Mapping[str, Any]) -> tuple[int, int, str]:
    target = port["targetPort"]
    number = target if isinstance(target, int) else int(target) if str(target).isdecimal() else 0
    return port["port"], number, str(target)


def _annotated(metadata: Mapping[str, Any], annotations: Mapping[str, str]) -> dict[str, Any]:
    if not annotations:
        return dict(metadata)
    return {**metadata, "annotations": {**(metadata.get("annotations") or {}), **annotations}}


def _encode(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    value = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
    return encode_decoded({key: member for key, member in value.items() if member is not None}, kind)
