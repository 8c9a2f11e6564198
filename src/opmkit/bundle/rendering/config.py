"""Configuration of an installed bundle, as in ``spec.config.inline`` of a ClusterExtension.

Its field ``deploymentConfig`` has the form of ``spec.config`` of a Subscription, and the same effects on deployments,
except that volumes replace those of the same name (operator-controller 1.11, rukpak/render/registryv1/generators).
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opmkit.bundle.api_types.decode import DecodeMode, Tables, decode_struct, field_types, parse_type
from opmkit.bundle.errors import BundleError
from opmkit.documents.document_stream import read_settings
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import format_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.documents.fields import FieldPath

_FIELDS = ("watchNamespace", "deploymentConfig")
CONFIG_STRUCT = "SubscriptionConfig"
"""The struct of ``deploymentConfig``."""
_REQUIRED = {
    "AWSElasticBlockStoreVolumeSource": ("volumeID",),
    "AzureDiskVolumeSource": ("diskName", "diskURI"),
    "AzureFileVolumeSource": ("secretName", "shareName"),
    "CSIVolumeSource": ("driver",),
    "CephFSVolumeSource": ("monitors",),
    "CinderVolumeSource": ("volumeID",),
    "ClusterTrustBundleProjection": ("path",),
    "ConfigMapKeySelector": ("key",),
    "DownwardAPIVolumeFile": ("path",),
    "EnvVar": ("name",),
    "FileKeySelector": ("volumeName", "path", "key"),
    "FlexVolumeSource": ("driver",),
    "GCEPersistentDiskVolumeSource": ("pdName",),
    "GitRepoVolumeSource": ("repository",),
    "GlusterfsVolumeSource": ("endpoints", "path"),
    "HostPathVolumeSource": ("path",),
    "ISCSIVolumeSource": ("targetPortal", "iqn", "lun"),
    "KeyToPath": ("key", "path"),
    "LabelSelectorRequirement": ("key", "operator"),
    "NFSVolumeSource": ("server", "path"),
    "NodeSelector": ("nodeSelectorTerms",),
    "NodeSelectorRequirement": ("key", "operator"),
    "ObjectFieldSelector": ("fieldPath",),
    "OwnerReference": ("apiVersion", "kind", "name", "uid"),
    "PersistentVolumeClaimTemplate": ("spec",),
    "PersistentVolumeClaimVolumeSource": ("claimName",),
    "PhotonPersistentDiskVolumeSource": ("pdID",),
    "PodAffinityTerm": ("topologyKey",),
    "PodCertificateProjection": ("signerName", "keyType"),
    "PortworxVolumeSource": ("volumeID",),
    "PreferredSchedulingTerm": ("weight", "preference"),
    "QuobyteVolumeSource": ("registry", "volume"),
    "RBDVolumeSource": ("monitors", "image"),
    "ResourceClaim": ("name",),
    "ResourceFieldSelector": ("resource",),
    "ScaleIOVolumeSource": ("gateway", "system", "secretRef"),
    "SecretKeySelector": ("key",),
    "ServiceAccountTokenProjection": ("path",),
    "TypedLocalObjectReference": ("kind", "name"),
    "TypedObjectReference": ("kind", "name"),
    "Volume": ("name",),
    "VolumeMount": ("name", "mountPath"),
    "VsphereVirtualDiskVolumeSource": ("volumePath",),
    "WeightedPodAffinityTerm": ("weight", "podAffinityTerm"),
}
"""Fields that must be present, by struct, as the API of Kubernetes documents them."""


@dataclass(frozen=True, slots=True)
class InstallConfig:
    """Configuration of an installed bundle.

    Attributes:
        watch_namespace: The namespace to watch, or "" for the default.
        deployment: Changes of the deployments, by the names of fields of a Subscription's ``spec.config``.
    """

    watch_namespace: str = ""
    deployment: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, content: bytes, name: str) -> InstallConfig:
        """Parse a configuration in YAML or JSON.

        Args:
            content: The document.
            name: Name of the file, for messages.

        Raises:
            BundleError: A field is unknown, or a value has the wrong type.
        """
        try:
            value = read_settings(content)
        except InvalidDocument as error:
            raise BundleError(error.located(name), hint="correct the file") from error
        value = {} if value is None else value
        if not isinstance(value, dict):
            raise BundleError(f"{name}: not a mapping", hint=f"write the fields {' and '.join(_FIELDS)}")
        if unknown := sorted(value.keys() - set(_FIELDS)):
            raise BundleError(f"{name}: unknown field {unknown[0]!r}", hint=f"known fields are {', '.join(_FIELDS)}")
        namespace = value.get("watchNamespace")
        if not isinstance(namespace, str | None) or namespace == "":
            raise BundleError(f"{name}: watchNamespace is not a namespace", hint="omit it to watch all namespaces")
        return cls(namespace or "", _parse_deployment(value.get("deploymentConfig"), name))


def _parse_deployment(value: Any, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    decoded = decode_struct(value, CONFIG_STRUCT, DecodeMode.JSON)
    for mismatch in decoded.mismatches:
        where = format_path(("deploymentConfig", *mismatch.path))
        raise BundleError(f"{name}: {where} {mismatch.problem}", hint=mismatch.hint or "correct the value")
    for unknown in decoded.unknown:
        where = format_path(("deploymentConfig", *unknown.path))
        hint = f"did you mean {unknown.nearest}?" if unknown.nearest else f"known are {', '.join(unknown.known)}"
        raise BundleError(f"{name}: {where} is an unknown field", hint=hint)
    if "selector" in decoded.value:
        raise BundleError(f"{name}: deploymentConfig.selector has no effect", hint="remove it")
    for missing in _missing_fields(value, CONFIG_STRUCT, ("deploymentConfig",)):
        raise BundleError(f"{name}: {format_path(missing)} is missing", hint="add it")
    return decoded.value


def _missing_fields(value: Mapping[str, Any], struct: str, path: FieldPath) -> Iterator[FieldPath]:
    """Yield the paths of required fields that are missing in a value of the right type."""
    for name in _REQUIRED.get(struct, ()):
        if value.get(name) is None:
            yield (*path, name)
    for name, field_type in field_types(struct, Tables.NEWEST).items():
        member = value.get(name)
        if field_type.kind == "struct" and member is not None:
            yield from _missing_fields(member, field_type.name, (*path, name))
        elif field_type.kind == "[]" and parse_type(field_type.name).kind == "struct":
            for number, item in enumerate(member or ()):
                yield from _missing_fields(item or {}, field_type.name, (*path, name, number))


def configure_deployment(deployment: dict[str, Any], config: Mapping[str, Any]) -> None:
    """Change a Deployment as a configuration says."""
    template: dict[str, Any] = deployment["spec"]["template"]
    pod: dict[str, Any] = template.setdefault("spec", {})
    containers: list[dict[str, Any]] = pod.get("containers") or []
    for container in containers:
        _replace_by_name(container, "env", config.get("env"))
        _append_missing(container, "envFrom", config.get("envFrom"))
        _replace_by_name(container, "volumeMounts", config.get("volumeMounts"))
        if (resources := config.get("resources")) is not None:
            container["resources"] = deepcopy(resources)
    _replace_by_name(pod, "volumes", config.get("volumes"))
    _append_missing(pod, "tolerations", config.get("tolerations"))
    if (selector := config.get("nodeSelector")) is not None:
        pod["nodeSelector"] = dict(selector)
    if (affinity := config.get("affinity")) is not None:
        _change_affinity(pod, affinity)
    if annotations := config.get("annotations"):
        for metadata in (deployment["metadata"], template.setdefault("metadata", {})):
            metadata["annotations"] = {**annotations, **(metadata.get("annotations") or {})}


def _replace_by_name(owner: dict[str, Any], key: str, added: list[dict[str, Any]] | None) -> None:
    """Add items to a list; those with the name of an existing item take its place."""
    if not added:
        return
    items = list(owner.get(key) or ())
    positions = {item.get("name", ""): position for position, item in enumerate(items)}
    for item in added:
        position = positions.get(item.get("name", ""))
        if position is None:
            items.append(deepcopy(item))
        else:
            items[position] = deepcopy(item)
    owner[key] = items


def _append_missing(owner: dict[str, Any], key: str, added: list[dict[str, Any]] | None) -> None:
    """Add items to a list that it does not have."""
    if added:
        items = list(owner.get(key) or ())
        for item in added:
            if item not in items:
                items.append(deepcopy(item))
        owner[key] = items


def _change_affinity(pod: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Replace the parts of the affinity that are given; empty ones are removed, and all of it by an empty affinity."""
    old = pod.pop("affinity", None) or {}
    affinity = dict(old) if changes else {}
    for part, change in changes.items():
        affinity.pop(part, None)
        if not _is_empty_affinity(change):
            affinity[part] = deepcopy(change)
    if not all(map(_is_empty_affinity, affinity.values())):
        pod["affinity"] = affinity


def _is_empty_affinity(part: Mapping[str, Any]) -> bool:
    required = part.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = required.get("nodeSelectorTerms") if isinstance(required, dict) else required
    return not terms and not part.get("preferredDuringSchedulingIgnoredDuringExecution")
