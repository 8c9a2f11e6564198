"""Fill a base ClusterServiceVersion with the objects of the input."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.author.generate import examples, manifests
from opmkit.author.generate.manifests import served_versions
from opmkit.author.generate.related_images import find_related_images
from opmkit.author.generate.webhooks import webhook_definitions
from opmkit.bundle.api_types.encode import encode_struct
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.kinds import CSV_KIND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.author.generate.manifests import Manifests
    from opmkit.author.generate.rbac import Rbac

_DEPLOYMENT_STRATEGY = "deployment"
_WATCH_NAMESPACE = "WATCH_NAMESPACE"
_TARGET_NAMESPACES = {"fieldRef": {"fieldPath": "metadata.annotations['olm.targetNamespaces']"}}
_EXAMPLES = "alm-examples"


@dataclass(frozen=True, slots=True)
class ServiceVersion:
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

    The base retains its install strategy if there are no Deployments, and its examples, webhook definitions and related
    images if the objects contain none.

    Args:
        base: ClusterServiceVersion, as Go programs write it.
        objects: All objects of the input.
        rbac: Their roles and bindings.
        package: Name of the package, for the name of the ClusterServiceVersion.
        version: Version of the operator; "" for that of the base.
        annotations: Annotations to set.

    Raises:
        InvalidBundle: if neither the objects nor the base contain a Deployment, or a related image is not constant.
    """
    value = copy.deepcopy(dict(base))
    spec = value["spec"]
    metadata_annotations = value["metadata"].setdefault("annotations", {})
    if version:
        value["metadata"]["name"] = f"{package}.v{version}"
        spec["version"] = version
    images, webhooks = find_related_images(objects), webhook_definitions(objects)
    warnings = [*images.warnings, *webhooks.warnings]
    _set_install(spec, objects, rbac)
    warnings += _set_owned(spec, objects)
    if objects.custom_resources or _EXAMPLES not in metadata_annotations:
        metadata_annotations[_EXAMPLES] = examples.to_json([item.value for item in objects.custom_resources])
    if webhooks.definitions:
        spec["webhookdefinitions"] = list(webhooks.definitions)
    if images.entries:
        spec["relatedImages"] = _merge_images(images.entries, spec.get("relatedImages") or ())
    metadata_annotations.update(annotations)
    return ServiceVersion(_clean(value), tuple(warnings))


def _set_install(spec: dict[str, Any], objects: Manifests, rbac: Rbac) -> None:
    install = spec["install"]
    strategy = install["spec"] = install.get("spec") or {}
    install["strategy"] = install["strategy"] or _DEPLOYMENT_STRATEGY
    if install["strategy"] != _DEPLOYMENT_STRATEGY:
        return
    deployments = objects.of_kind(manifests.DEPLOYMENT)
    if not deployments:
        if not strategy.get("deployments"):
            raise InvalidBundle(
                "no Deployment found: OLM installs an operator as a Deployment",
                hint="pass the Deployment of the operator with its CustomResourceDefinitions, roles, role bindings and "
                "service accounts",
            )
        return
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
