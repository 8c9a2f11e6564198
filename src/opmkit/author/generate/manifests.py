"""The objects that a bundle is generated from, by kind, and the division of its roles and bindings."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from opmkit.author.generate import manifests
from opmkit.bundle.api_types import decode
from opmkit.bundle.api_types.encode import encode_struct
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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


class Manifests(Struct, frozen=True, dict=True):
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
    return item.group, item.version, item.kind, _namespace(item), item.name


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
        struct = decode.CRDS[item.value["apiVersion"]]
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


_DEFAULT_ACCOUNT = "default"
_RBAC_GROUPS = ("", "rbac.authorization.k8s.io")


class Rbac(Struct, frozen=True):
    """The permissions of the operator's service accounts, and the objects that become manifests of the bundle.

    Attributes:
        permissions: Rules within a namespace, as in the CSV.
        cluster_permissions: Rules in the whole cluster, as in the CSV.
        manifests: Roles, bindings and service accounts of others than the operator.
        warnings: Warnings about service accounts that OLM does not create.
    """

    permissions: tuple[dict[str, Any], ...]
    cluster_permissions: tuple[dict[str, Any], ...]
    manifests: tuple[InputObject, ...]
    warnings: tuple[str, ...] = ()


def divide_rbac(objects: Manifests, extra_accounts: Iterable[str] = ()) -> Rbac:
    """Divide roles, bindings and service accounts.

    Args:
        objects: All objects of the input.
        extra_accounts: Service accounts of the operator that none of its Deployments use.
    """
    accounts = {*map(service_account, objects.of_kind(manifests.DEPLOYMENT)), *extra_accounts}
    roles = {(role.kind, role.name): role for role in _roles(objects)}
    bindings = objects.of_kind(manifests.ROLE_BINDING)
    cluster_bindings = objects.of_kind(manifests.CLUSTER_ROLE_BINDING)
    bound = {
        _role_of(binding) for binding in (*bindings, *cluster_bindings) if _binds(binding, accounts)
    } & roles.keys()
    others = [
        binding
        for binding in (*bindings, *cluster_bindings)
        if _role_of(binding) not in roles or not _binds_only(binding, accounts)
    ]
    needed = {_role_of(binding) for binding in others}
    written_roles = [role for key, role in roles.items() if key not in bound or key in needed]
    other_accounts = [account for account in objects.of_kind(manifests.SERVICE_ACCOUNT) if account.name not in accounts]
    permissions, cluster_permissions = (_permissions(one, roles, accounts) for one in (bindings, cluster_bindings))
    created = {permission["serviceAccountName"] for permission in (*permissions, *cluster_permissions)}
    missing = sorted(accounts - created - {_DEFAULT_ACCOUNT})
    return Rbac(
        permissions,
        cluster_permissions,
        (*written_roles, *others, *other_accounts),
        (
            *(f"service account {name} has no permissions, so OLM does not create it" for name in missing),
            *_namespace_warnings(objects, roles, accounts, others),
        ),
    )


def _namespace_warnings(
    objects: Manifests,
    roles: Mapping[tuple[str, str], InputObject],
    accounts: set[str],
    written: Iterable[InputObject],
) -> Iterator[str]:
    """Yield warnings about permissions that have other namespaces than in the input if OLM installs the operator.

    Args:
        objects: All objects of the input.
        roles: The roles by kind and name.
        accounts: The service accounts of the operator.
        written: The bindings that become manifests.
    """
    own = {_namespace(deployment) for deployment in objects.of_kind(manifests.DEPLOYMENT)}
    for binding in objects.of_kind(manifests.ROLE_BINDING):
        namespace, role = _namespace(binding), roles.get(_role_of(binding))
        if role and own and namespace and namespace not in own and _binds(binding, accounts):
            yield (
                f"{role}: the operator gets its permissions in the namespaces that it watches, not in {namespace}, "
                f"where {binding} grants them"
            )
    for binding in written:
        for namespace in sorted({subject.get("namespace") or "" for subject in _subjects(binding)} - {""}):
            yield (
                f"{binding}: binds accounts of namespace {namespace}, even if the operator is installed in another one"
            )


def _namespace(item: InputObject) -> str:
    return str(item.metadata.get("namespace") or "")


def service_account(deployment: InputObject) -> str:
    """Return the name of the service account of a Deployment."""
    return str(deployment.value["spec"]["template"]["spec"].get("serviceAccountName") or _DEFAULT_ACCOUNT)


def _roles(objects: Manifests) -> Iterator[InputObject]:
    yield from objects.of_kind(manifests.ROLE)
    yield from objects.of_kind(manifests.CLUSTER_ROLE)


def _role_of(binding: InputObject) -> tuple[str, str]:
    """Return kind and name of the role of a binding."""
    role = binding.value["roleRef"]
    is_role = role["apiGroup"] in _RBAC_GROUPS
    if binding.kind == manifests.CLUSTER_ROLE_BINDING and role["kind"] != manifests.CLUSTER_ROLE:
        is_role = False
    return (role["kind"], role["name"]) if is_role else ("", "")


def _subjects(binding: InputObject) -> list[dict[str, Any]]:
    return list(binding.value.get("subjects") or ())


def _is_account(subject: Mapping[str, Any], accounts: set[str]) -> bool:
    return subject["kind"] == manifests.SERVICE_ACCOUNT and subject["name"] in accounts


def _binds(binding: InputObject, accounts: set[str]) -> bool:
    return any(_is_account(subject, accounts) for subject in _subjects(binding))


def _binds_only(binding: InputObject, accounts: set[str]) -> bool:
    """Return whether a binding is redundant: OLM creates bindings for the permissions in the CSV."""
    return all(_is_account(subject, accounts) for subject in _subjects(binding))


def _permissions(
    bindings: Iterable[InputObject], roles: Mapping[tuple[str, str], InputObject], accounts: set[str]
) -> tuple[dict[str, Any], ...]:
    rules: dict[str, list[Any]] = {}
    for binding in bindings:
        role = roles.get(_role_of(binding))
        for subject in _subjects(binding) if role else ():
            if role and _is_account(subject, accounts):
                rules.setdefault(subject["name"], []).extend(role.value["rules"] or ())
    return tuple({"serviceAccountName": name, "rules": rules[name]} for name in sorted(rules) if rules[name])
