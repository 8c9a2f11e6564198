"""Fill a base ClusterServiceVersion with the objects of the input."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct

from opmkit.author.generate import manifests
from opmkit.author.generate.manifests import DEPLOYMENT, served_versions
from opmkit.bundle.api_types.encode import encode_struct
from opmkit.bundle.kinds import CSV_KIND
from opmkit.documents.json_value import encode, escape_html, go_float

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.author.generate.input import InputObject
    from opmkit.author.generate.manifests import Manifests, Rbac
    from opmkit.documents.json_value import JsonValue


_DEPLOYMENT_STRATEGY = "deployment"
_WATCH_NAMESPACE = "WATCH_NAMESPACE"
_TARGET_NAMESPACES = {"fieldRef": {"fieldPath": "metadata.annotations['olm.targetNamespaces']"}}
_EXAMPLES = "alm-examples"


class ServiceVersion(Struct, frozen=True):
    """A generated ClusterServiceVersion without ``createdAt``, and warnings about its sources."""

    value: dict[str, Any]
    warnings: tuple[str, ...]


def fill_service_version(
    base: Mapping[str, Any],
    objects: Manifests,
    rbac: Rbac,
    *,
    package: str,
    version: str,
    annotations: Mapping[str, str],
) -> ServiceVersion:
    """Return a ClusterServiceVersion with the fields of a base and those that the objects determine.

    The base retains its Deployments and permissions if there are no others, and its examples, webhook definitions and
    related images if the objects contain none.

    Args:
        base: ClusterServiceVersion, as Go programs write it.
        objects: All objects of the input.
        rbac: Their roles and bindings.
        package: Name of the package, for the name of the ClusterServiceVersion.
        version: Version of the operator; "" for that of the base.
        annotations: Annotations to set.

    Raises:
        InvalidBundle: A Deployment has no name, or a related image is not constant.
    """
    value = copy.deepcopy(dict(base))
    spec = value["spec"]
    metadata_annotations = value["metadata"].setdefault("annotations", {})
    if version:
        value["metadata"]["name"] = f"{package}.v{version}"
        spec["version"] = version
    images, webhooks = find_related_images(objects), webhook_definitions(objects)
    warnings = [*images.warnings, *webhooks.warnings]
    warnings += _set_install(spec, objects, rbac)
    warnings += _set_owned(spec, objects)
    if objects.custom_resources or _EXAMPLES not in metadata_annotations:
        metadata_annotations[_EXAMPLES] = to_json([item.value for item in objects.custom_resources])
    if webhooks.definitions:
        spec["webhookdefinitions"] = list(webhooks.definitions)
    if images.entries:
        spec["relatedImages"] = _merge_images(images.entries, spec.get("relatedImages") or ())
    metadata_annotations.update(annotations)
    return ServiceVersion(_clean(value), tuple(warnings))


def _set_install(spec: dict[str, Any], objects: Manifests, rbac: Rbac) -> list[str]:
    """Set the install strategy; return a warning if it has no Deployment, as that of a bundle of dependencies."""
    install = spec["install"]
    strategy = install["spec"] = install.get("spec") or {}
    install["strategy"] = install["strategy"] or _DEPLOYMENT_STRATEGY
    deployments = objects.of_kind(manifests.DEPLOYMENT)
    if install["strategy"] != _DEPLOYMENT_STRATEGY or (not deployments and strategy.get("deployments")):
        return []
    for deployment in deployments:
        if not deployment.name:
            raise deployment.error("has no name", hint="add metadata.name")
    strategy["deployments"] = [
        {
            "name": deployment.name,
            "label": deployment.metadata.get("labels") or {},
            "spec": _with_watched_namespaces(deployment.value["spec"]),
        }
        for deployment in deployments
    ]
    strategy["permissions"] = list(rbac.permissions)
    strategy["clusterPermissions"] = list(rbac.cluster_permissions)
    return [] if deployments else ["no Deployment found: the ClusterServiceVersion installs no operator"]


def _with_watched_namespaces(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a Deployment whose containers take the namespaces to watch from OLM, if they take any."""
    changed = copy.deepcopy(dict(spec))
    for container in changed["template"]["spec"].get("containers") or ():
        for variable in container.get("env") or ():
            if variable["name"] == _WATCH_NAMESPACE:
                variable.pop("value", None)
                variable["valueFrom"] = copy.deepcopy(_TARGET_NAMESPACES)
    return changed


def _set_owned(spec: dict[str, Any], objects: Manifests) -> list[str]:
    """Set the owned CRDs; those of the base retain their descriptions. Return warnings about dropped ones."""
    definitions = spec["customresourcedefinitions"]
    described = {(crd["name"], crd["version"], crd["kind"]): crd for crd in definitions.get("owned") or ()}
    keys = [
        (crd.name, version, crd.value["spec"]["names"]["kind"])
        for crd in objects.crds
        for version in served_versions(crd)
    ]
    definitions["owned"] = [described.get(key, {"name": key[0], "version": key[1], "kind": key[2]}) for key in keys]
    return [
        f"omitted the owned CRD {name} {version or 'without version'} of the base: no CRD of the input serves it"
        for name, version, _ in sorted(described.keys() - set(keys))
    ]


def _merge_images(found: Sequence[Mapping[str, str]], base: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Return the images of the input, and those of the base with other names and references."""
    names, images = {entry["name"] for entry in found}, {entry["image"] for entry in found}
    return [*found, *(entry for entry in base if entry["name"] not in names and entry["image"] not in images)]


def _clean(value: dict[str, Any]) -> dict[str, Any]:
    """Return the CSV as Go programs write it, without status, creation times and a ``cleanup`` that is off."""
    encoded = encode_struct(value, CSV_KIND).value
    encoded.pop("status", None)
    if not encoded["spec"]["cleanup"].get("enabled"):
        encoded["spec"].pop("cleanup")
    encoded["metadata"].pop("creationTimestamp", None)
    for deployment in encoded["spec"]["install"].get("spec", {}).get("deployments") or ():
        deployment["spec"]["template"]["metadata"].pop("creationTimestamp", None)
    return encoded


def to_json(value: JsonValue) -> str:
    """Return indented JSON with sorted keys and with ``<``, ``>`` and ``&`` escaped.

    Raises:
        ValueError: For infinite numbers and NaN.
    """
    return escape_html("".join(_tokens(value, "\n")).encode()).decode()


def _tokens(value: JsonValue, line_break: str) -> Iterator[str]:
    inner = line_break + "  "
    if isinstance(value, dict) and value:
        yield "{"
        for number, key in enumerate(sorted(value)):
            yield f"{',' if number else ''}{inner}{orjson.dumps(key).decode()}: "
            yield from _tokens(value[key], inner)
        yield line_break + "}"
    elif isinstance(value, list) and value:
        yield "["
        for number, item in enumerate(value):
            yield f"{',' if number else ''}{inner}"
            yield from _tokens(item, inner)
        yield line_break + "]"
    elif isinstance(value, float):
        yield go_float(value)
    else:
        yield encode(value).decode()


_PREFIX = "RELATED_IMAGE_"


class RelatedImages(Struct, frozen=True):
    """Entries of ``relatedImages`` in the CSV, and warnings about ambiguous names."""

    entries: tuple[dict[str, str], ...]
    warnings: tuple[str, ...] = ()


class _Variable(Struct, frozen=True):
    name: str
    image: str
    container: str


def find_related_images(objects: Manifests) -> RelatedImages:
    """Return the images in the variables of all containers and init containers, without duplicates.

    A name that several images have is prefixed with that of its Deployment and container. An image with several names
    has one entry without a name, as operator-sdk writes it.

    Raises:
        InvalidBundle: A variable has no constant value.
    """
    variables: dict[tuple[str, str], _Variable] = {}
    for variable in _variables(objects):
        variables.setdefault((variable.name, variable.image), variable)
    entries, warnings = [], []
    for variable in variables.values():
        names = [name for name, image in variables if image == variable.image]
        images = [image for name, image in variables if name == variable.name]
        name = variable.name if len(images) == 1 else f"{variable.container}-{variable.name}"
        if len(names) > 1:
            if variable.name != names[0]:
                continue
            warnings.append(f"related image {variable.image} has several names: {', '.join(names)}")
            name = ""
        entries.append({"name": name, "image": variable.image})
    return RelatedImages(tuple(entries), tuple(warnings))


def _variables(objects: Manifests) -> Iterator[_Variable]:
    for deployment in objects.of_kind(DEPLOYMENT):
        pod = deployment.value["spec"]["template"]["spec"]
        containers = [
            (kind, number, container)
            for kind in ("containers", "initContainers")
            for number, container in enumerate(pod.get(kind) or ())
        ]
        for kind, number, container in containers:
            where = deployment.name if len(containers) == 1 else f"{deployment.name}-{container['name']}"
            for position, variable in enumerate(container.get("env") or ()):
                if not variable["name"].startswith(_PREFIX):
                    continue
                if variable.get("valueFrom") is not None:
                    path = ("spec", "template", "spec", kind, number, "env", position, "valueFrom")
                    raise deployment.error(
                        f"is unsupported for {variable['name']}", path, hint="write the image into the manifest"
                    )
                name = variable["name"].removeprefix(_PREFIX).replace("_", "-").lower()
                yield _Variable(name, variable.get("value", ""), where)


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


class Webhooks(Struct, frozen=True):
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


class _Servers(Struct):
    """The Services of webhooks, and the Deployments behind them."""

    objects: Manifests
    warnings: list[str] = []

    def service(self, name: str) -> InputObject | None:
        services = self.objects.of_kind(manifests.SERVICE)
        return next((service for service in services if service.name == name), None)

    def deployment(self, service: InputObject | None) -> str:
        """Return the first Deployment whose pods a Service selects, or "" if there is none."""
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
