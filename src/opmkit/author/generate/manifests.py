"""The objects that a bundle is generated from, by kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from opmkit.bundle.api_types import tables
from opmkit.bundle.api_types.encode import encode_struct
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.author.generate.input import InputObject


_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_CRD_GROUP = "apiextensions.k8s.io"
_SCORECARD_GROUP = "scorecard.operatorframework.io"
_CRD_VERSIONS = ("v1", "v1beta1")

DEPLOYMENT: Final = "Deployment"
ROLE: Final = "Role"
CLUSTER_ROLE: Final = "ClusterRole"
ROLE_BINDING: Final = "RoleBinding"
CLUSTER_ROLE_BINDING: Final = "ClusterRoleBinding"
SERVICE: Final = "Service"
SERVICE_ACCOUNT: Final = "ServiceAccount"
VALIDATING_WEBHOOKS: Final = "ValidatingWebhookConfiguration"
MUTATING_WEBHOOKS: Final = "MutatingWebhookConfiguration"
SCORECARD: Final = "Configuration"
_OTHER = ""

_Key: TypeAlias = tuple[str, ...]
"""Group, version, kind, namespace and name of an object."""

_GROUPS: Final = {
    CSV_KIND: "operators.coreos.com",
    ROLE: _RBAC,
    CLUSTER_ROLE: _RBAC,
    ROLE_BINDING: _RBAC,
    CLUSTER_ROLE_BINDING: _RBAC,
    SERVICE_ACCOUNT: "",
    SERVICE: "",
    DEPLOYMENT: "apps",
    CRD_KIND: _CRD_GROUP,
    VALIDATING_WEBHOOKS: _ADMISSION,
    MUTATING_WEBHOOKS: _ADMISSION,
    SCORECARD: _SCORECARD_GROUP,
}
"""The kinds that bundles are made from, and their groups. The names of the structs are those of the kinds."""


@dataclass(frozen=True)
class Manifests:
    """The objects of the input without duplicates; those of known kinds have all fields that Go programs write."""

    objects: tuple[InputObject, ...]

    @classmethod
    def collect(cls, objects: Iterable[InputObject]) -> Manifests:
        """Collect objects.

        Raises:
            InvalidBundle: A value has the wrong type, a name is invalid, or two objects have the same name.
        """
        by_key: dict[_Key, list[InputObject]] = {}
        distinct: list[InputObject] = []
        for item in map(_complete, objects):
            same = by_key.setdefault(_key(item), [])
            if all(other.value != item.value for other in same):
                same.append(item)
                distinct.append(item)
        collected = cls(tuple(distinct))
        examples = set(map(_key, collected.custom_resources))
        for key, (first, *others) in by_key.items():
            if others and key not in examples:
                raise others[0].error(
                    f"is already defined differently in {first.location()}", hint="pass each object only once"
                )
        return collected

    def of_kind(self, kind: str) -> tuple[InputObject, ...]:
        """Return the objects of a kind that bundles are made from."""
        return self._by_kind.get(kind, ())

    @property
    def others(self) -> tuple[InputObject, ...]:
        """The objects of all other kinds, with the custom resources."""
        return self._by_kind.get(_OTHER, ())

    @cached_property
    def crds(self) -> tuple[InputObject, ...]:
        """The CustomResourceDefinitions; those of version v1 first."""
        return tuple(sorted(self.of_kind(CRD_KIND), key=lambda crd: _CRD_VERSIONS.index(crd.version)))

    @cached_property
    def custom_resources(self) -> tuple[InputObject, ...]:
        """The objects whose API is defined by one of the CustomResourceDefinitions."""
        apis = {
            (crd.value["spec"]["group"], version, crd.value["spec"]["names"]["kind"])
            for crd in self.crds
            for version in served_versions(crd)
        }
        return tuple(item for item in self.others if (item.group, item.version, item.kind) in apis)

    def webhooks(self, kind: str) -> Iterator[tuple[InputObject, dict[str, Any]]]:
        """Yield the webhooks of all configurations of a kind, with the configurations."""
        for configuration in self.of_kind(kind):
            for webhook in configuration.value.get("webhooks") or ():
                yield configuration, webhook

    @cached_property
    def _by_kind(self) -> dict[str, tuple[InputObject, ...]]:
        kinds: dict[str, list[InputObject]] = {}
        for item in self.objects:
            kinds.setdefault(item.kind if _is_known(item) else _OTHER, []).append(item)
        return {kind: tuple(items) for kind, items in kinds.items()}


def served_versions(crd: InputObject) -> list[str]:
    """Return the names of the versions that a CustomResourceDefinition serves."""
    spec = crd.value["spec"]
    versions = spec.get("versions") or ()
    if not versions and crd.version == "v1beta1":
        return [spec.get("version", "")]
    return [version["name"] for version in versions if version["served"]]


def _key(item: InputObject) -> _Key:
    return item.group, item.version, item.kind, str(item.metadata.get("namespace") or ""), item.name


def _is_known(item: InputObject) -> bool:
    return _GROUPS.get(item.kind) == item.group


def _complete(item: InputObject) -> InputObject:
    """Return an object of a known kind as Go programs write it; others unchanged.

    Raises:
        InvalidBundle: For a value of the wrong type.
    """
    metadata = item.value.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise item.error("is not a mapping", ("metadata",), hint="correct the object")
    check_name(item)
    if not _is_known(item):
        return item
    struct = item.kind
    if item.kind == CRD_KIND:
        if item.version not in _CRD_VERSIONS:
            raise item.error(f"has the unsupported apiVersion {item.value['apiVersion']}", hint="convert it to v1")
        struct = tables.CRDS[item.value["apiVersion"]]
    encoded = encode_struct(item.value, struct)
    for mismatch in encoded.mismatches:
        raise item.error(mismatch.problem, mismatch.path, hint=mismatch.hint)
    return replace(item, value=encoded.value)


_INVALID = frozenset("/%\\")
_MAX_LENGTH = 253


def check_name(item: InputObject) -> None:
    """Raise InvalidBundle for a name that cannot be part of a path; the names of all objects can."""
    name, path = item.metadata.get("name"), ("metadata", "name")
    if name is None:
        return
    if not isinstance(name, str):
        raise item.error("is not a string", path, hint="put the name in quotes")
    if name in (".", "..") or len(name) > _MAX_LENGTH or _INVALID.intersection(name) or not name.isprintable():
        raise item.error("is not a valid name", path, hint="use lower case letters, digits, '-' and '.'")


def file_name(item: InputObject) -> str:
    """Return the file name that operator-sdk gives to a manifest.

    Raises:
        InvalidBundle: The object has no name, or its group, version or kind cannot be part of a file name.
    """
    group, plural = _group_and_plural(item) if item.kind == CRD_KIND else ("", "")
    parts = (item.name, item.group, item.version, item.kind.lower())
    name = f"{group}_{plural}" if group and plural else "_".join(part for n, part in enumerate(parts) if part or n != 1)
    if _INVALID.intersection(name) or not name.isprintable():
        raise item.error("has an invalid group, version or kind", hint="correct the object")
    if not item.name:
        raise item.error("has no name", hint="add metadata.name")
    return f"{name}.yaml"


def _group_and_plural(crd: InputObject) -> tuple[str, str]:
    spec = crd.value["spec"]
    return spec["group"], spec["names"]["plural"]
