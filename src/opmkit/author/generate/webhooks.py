"""Webhook definitions of a ClusterServiceVersion, from webhook configurations and the conversion of CRDs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opmkit.author.generate import manifests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.author.generate.input import InputObject
    from opmkit.author.generate.manifests import Manifests

_HTTPS = 443
_DEFAULT_REVIEW_VERSIONS = ["v1beta1"]
_NO_SIDE_EFFECTS = "None"
_EXTERNAL_NAME = "ExternalName"
_COPIED = (
    "rules",
    "failurePolicy",
    "matchPolicy",
    "objectSelector",
    "timeoutSeconds",
    "reinvocationPolicy",
)
_TYPES = {
    manifests.VALIDATING_WEBHOOKS: "ValidatingAdmissionWebhook",
    manifests.MUTATING_WEBHOOKS: "MutatingAdmissionWebhook",
}
_CONVERSION = "ConversionWebhook"


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Webhook definitions in the order of their names, and warnings about webhooks without a server."""

    definitions: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...] = ()


def webhook_definitions(objects: Manifests) -> Webhooks:
    """Return the definitions of all webhooks; OLM creates their configurations, services and certificates."""
    servers = _Servers(objects)
    found: list[dict[str, Any]] = []
    for kind in _TYPES:
        for _, webhook in objects.webhooks(kind):
            definition = _admission_definition(kind, webhook, servers)
            if definition not in found:
                found.append(definition)
    found += _conversion_definitions(objects, servers)
    return Webhooks(tuple(sorted(found, key=lambda one: one["generateName"])), tuple(servers.warnings))


@dataclass
class _Servers:
    """The Services of webhooks, and the Deployments behind them."""

    objects: Manifests
    warnings: list[str] = field(default_factory=list)

    def service(self, name: str) -> InputObject | None:
        services = self.objects.of_kind(manifests.SERVICE)
        return next((service for service in services if service.name == name), None)

    def deployment(self, service: InputObject | None) -> str:
        """Return the first Deployment whose pods a Service selects, "" if there is none."""
        spec = service.value["spec"] if service else {}
        selector = spec.get("selector") or {}
        if not selector or spec.get("type") == _EXTERNAL_NAME:
            return ""
        for deployment in self.objects.of_kind(manifests.DEPLOYMENT):
            labels = deployment.value["spec"]["template"]["metadata"].get("labels") or {}
            if selector.items() <= labels.items():
                return deployment.name
        return ""

    def describe(self, subject: str, reference: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a definition about the server of a webhook; ``reference`` is that to its Service."""
        service = self.service(reference["name"])
        deployment = self.deployment(service)
        if not service:
            self.warnings.append(f"{subject}: the service {reference['name']} is not in the input")
        elif not deployment:
            self.warnings.append(f"{subject}: the service {reference['name']} selects no Deployment of the input")
        return {
            "deploymentName": deployment or reference["name"].removesuffix("-service"),
            **_port(service, reference.get("port") or _HTTPS),
            **({"webhookPath": reference["path"]} if reference.get("path") is not None else {}),
        }


def _port(service: InputObject | None, number: int) -> dict[str, Any]:
    """Return the port of a Service with this number, as a definition describes it."""
    ports = (service.value["spec"].get("ports") or ()) if service else ()
    for port in ports:
        if port["port"] == number:
            return {"containerPort": number, "targetPort": port["targetPort"]}
    return {}


def _admission_definition(kind: str, webhook: dict[str, Any], servers: _Servers) -> dict[str, Any]:
    name, reference = webhook["name"], webhook["clientConfig"].get("service")
    return {
        "type": _TYPES[kind],
        "generateName": name,
        **{key: webhook[key] for key in _COPIED if key in webhook},
        "sideEffects": webhook.get("sideEffects") or _NO_SIDE_EFFECTS,
        "admissionReviewVersions": webhook.get("admissionReviewVersions") or _DEFAULT_REVIEW_VERSIONS,
        **(servers.describe(f"webhook {name}", reference) if reference else {}),
    }


def _conversion_definitions(objects: Manifests, servers: _Servers) -> Iterator[dict[str, Any]]:
    """Yield a definition for all CRDs that have their server and path in common."""
    groups: dict[tuple[Any, ...], list[tuple[str, dict[str, Any]]]] = {}
    for crd in objects.crds:
        webhook = _conversion_webhook(crd)
        reference = (webhook.get("clientConfig") or {}).get("service")
        if reference and servers.service(reference["name"]):
            key = (reference["name"], reference.get("port"), reference.get("path"))
            groups.setdefault(key, []).append((crd.name, webhook))
    for members in groups.values():
        members.sort(key=lambda member: member[0])
        names, webhook = [name for name, _ in members], members[0][1]
        yield {
            "type": _CONVERSION,
            "generateName": f"c{_join_plurals(names)}.kb.io",
            "conversionCRDs": names,
            "sideEffects": _NO_SIDE_EFFECTS,
            "admissionReviewVersions": webhook.get("conversionReviewVersions") or [],
            **servers.describe(f"conversion of {', '.join(names)}", webhook["clientConfig"]["service"]),
        }


def _conversion_webhook(crd: InputObject) -> dict[str, Any]:
    """Return the webhook of a conversion in the form of version v1, {} if there is none."""
    conversion = crd.value["spec"].get("conversion") or {}
    if crd.version == "v1":
        return dict(conversion.get("webhook") or {})
    versions = conversion.get("conversionReviewVersions") or []
    return {"clientConfig": conversion.get("webhookClientConfig"), "conversionReviewVersions": versions}


def _join_plurals(names: Iterable[str]) -> str:
    return "".join(name.partition(".")[0] for name in names)
