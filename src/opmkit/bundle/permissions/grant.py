"""Who may do what once a bundle is installed.

The permissions of the ClusterServiceVersion belong to its service accounts. OLM binds ``clusterPermissions`` in the
whole cluster, and ``permissions`` in the watched namespaces, which is the whole cluster for an operator that watches
all namespaces. Bundles can also contain roles and bindings, which OLM applies to the namespace of the operator.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from opmkit.bundle.api_types.decode import DecodeMode, decode_struct
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND
from opmkit.bundle.permissions.rule import ANY, PolicyRule
from opmkit.core.json_types import JsonResult
from opmkit.documents.fields import describe, format_path
from opmkit.documents.lenient import mapping, members, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.documents.fields import FieldPath

RBAC_KINDS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
ALL_NAMESPACES = "AllNamespaces"
_STRATEGY = ("spec", "install", "spec")
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_CLUSTER_ADMIN = PolicyRule((ANY,), (ANY,), (ANY,))
_FOREIGN_GROUPS = re.compile(r"[^.]*|(.*\.)?(k8s\.io|kubernetes\.io)|(security|config|operator)\.openshift\.io")
"""API groups of Kubernetes and OpenShift; an operator that ships a definition for one does not own them."""
_KNOWN_ROLES: Mapping[str, tuple[PolicyRule, ...]] = {
    "cluster-admin": (_CLUSTER_ADMIN, PolicyRule((ANY,), urls=(ANY,))),
    "system:auth-delegator": (
        PolicyRule(("create",), ("authentication.k8s.io",), ("tokenreviews",)),
        PolicyRule(("create",), ("authorization.k8s.io",), ("subjectaccessreviews",)),
    ),
}
"""The rules of roles of every cluster that operators bind."""


class PermissionScope(StrEnum):
    """Where a permission applies."""

    CLUSTER = "cluster"
    """In every namespace, and on objects of the cluster."""
    WATCHED = "watched-namespaces"
    """In the namespaces that the operator watches; everywhere if it watches all namespaces."""
    OWN = "own-namespace"
    """In the namespace of the operator."""

    @property
    def phrase(self) -> str:
        """The scope in words."""
        return {
            PermissionScope.CLUSTER: "in every namespace",
            PermissionScope.WATCHED: "in the watched namespaces",
            PermissionScope.OWN: "in its own namespace",
        }[self]


@dataclass(frozen=True, slots=True)
class Grant(JsonResult):
    """The rules that a subject gets from one place in a bundle.

    Attributes:
        subject: The service account, ``NAMESPACE/NAME`` for one of another namespace, or another subject such as
            ``Group system:authenticated``.
        is_operator: Whether the subject is a service account of the operator.
        scope: Where the rules apply.
        source: ``clusterPermissions``, ``permissions``, or kind and name of a binding or role.
        rules: The rules.
        unknown_role: The role of the cluster whose rules are granted, if they are not known.
    """

    subject: str
    is_operator: bool
    scope: PermissionScope
    source: str
    rules: tuple[PolicyRule, ...] = ()
    unknown_role: str = ""


@dataclass(frozen=True, slots=True)
class Interception(JsonResult):
    """Requests to the API server that a webhook of the operator changes or rejects.

    Attributes:
        webhook: Name of the webhook.
        changes: Whether it changes objects; otherwise it only rejects them.
        groups: API groups.
        resources: Resources.
        operations: Operations, such as ``CREATE``.
    """

    webhook: str
    changes: bool
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    operations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Permissions(JsonResult):
    """What the operator of a bundle may do.

    Attributes:
        bundle: Name of the bundle.
        install_modes: The supported install modes.
        own_groups: API groups of the CustomResourceDefinitions that the bundle contains, without those of Kubernetes.
        grants: The permissions, those of the ClusterServiceVersion first.
        interceptions: The requests that its webhooks see.
    """

    bundle: str
    install_modes: tuple[str, ...]
    own_groups: frozenset[str]
    grants: tuple[Grant, ...]
    interceptions: tuple[Interception, ...] = ()

    @property
    def watches_all(self) -> bool:
        """Whether the operator can watch all namespaces, so that all its permissions apply everywhere."""
        return ALL_NAMESPACES in self.install_modes


class PlacedObject(NamedTuple):
    """An object of a bundle, and its file and line, or "" if they are not known."""

    place: str
    value: Mapping[str, Any]


def read_permissions(objects: Iterable[PlacedObject]) -> Permissions:
    """Return the permissions in the objects of a bundle.

    Raises:
        InvalidBundle: There is no ClusterServiceVersion, or a permission has the wrong type.
    """
    by_kind: dict[str, list[PlacedObject]] = defaultdict(list)
    for each in objects:
        by_kind[text(each.value.get("kind"))].append(each)
    if not by_kind[CSV_KIND]:
        raise InvalidBundle(f"no {CSV_KIND} found", hint=f"add a {CSV_KIND} to the manifests directory")
    csv = by_kind[CSV_KIND][-1]
    spec = _member(csv, csv.value, ("spec",))
    strategy = _member(csv, _member(csv, spec, ("spec", "install")), _STRATEGY)
    modes = (mode for _, mode in members(spec.get("installModes"), ()) if mode.get("supported") is True)
    granted = list(_csv_grants(csv, strategy))
    accounts = {grant.subject for grant in granted} | set(_accounts_of_deployments(strategy))
    return Permissions(
        text(mapping(csv.value.get("metadata")).get("name")),
        tuple(sorted({text(mode.get("type")) for mode in modes})),
        frozenset(_own_groups(each.value for each in by_kind[CRD_KIND])),
        (*granted, *_Roles(by_kind, accounts).grants()),
        tuple(_interceptions(csv, spec)),
    )


def _member(csv: PlacedObject, owner: Mapping[str, Any], path: FieldPath) -> Mapping[str, Any]:
    """Return a mapping, which may be absent, of the mapping that contains it."""
    value = owner.get(str(path[-1]))
    if not isinstance(value, dict | None):
        raise _wrong_type(csv, path, f"is {describe(value)}, not a mapping", "write a mapping")
    return value or {}


def _csv_grants(csv: PlacedObject, strategy: Mapping[str, Any]) -> Iterator[Grant]:
    for key, scope in (("clusterPermissions", PermissionScope.CLUSTER), ("permissions", PermissionScope.WATCHED)):
        for path, value in _items(csv, strategy, key, _STRATEGY):
            decoded = _decode(csv, value, "StrategyDeploymentPermissions", path)
            account = decoded.get("serviceAccountName") or "default"
            yield Grant(account, True, scope, key, _rules(decoded))


def _items(csv: PlacedObject, owner: Mapping[str, Any], key: str, base: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the items of a list, which may be absent, with their paths."""
    value = owner.get(key)
    if not isinstance(value, list | None):
        raise _wrong_type(csv, (*base, key), f"is {describe(value)}, not a list", "write a list")
    for number, item in enumerate(value or ()):
        yield (*base, key, number), item


def _accounts_of_deployments(strategy: Mapping[str, Any]) -> Iterator[str]:
    for _, deployment in members(strategy.get("deployments"), ()):
        template = mapping(mapping(deployment.get("spec")).get("template"))
        yield text(mapping(template.get("spec")).get("serviceAccountName")) or "default"


def _own_groups(definitions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for definition in definitions:
        group = text(mapping(definition.get("spec")).get("group"))
        if not _FOREIGN_GROUPS.fullmatch(group):
            yield group


def _interceptions(csv: PlacedObject, spec: Mapping[str, Any]) -> Iterator[Interception]:
    for path, value in _items(csv, spec, "webhookdefinitions", ("spec",)):
        webhook = _decode(csv, value, "WebhookDescription", path)
        if webhook.get("type") == "ConversionWebhook":
            continue
        for rule in webhook.get("rules") or ():
            yield Interception(
                str(webhook.get("generateName", "")),
                webhook.get("type") == "MutatingAdmissionWebhook",
                *(tuple(sorted(set(rule.get(key) or ()))) for key in ("apiGroups", "resources", "operations")),
            )


def _decode(owner: PlacedObject, value: Any, struct: str, path: FieldPath = ()) -> Mapping[str, Any]:
    """Decode a value at a path in an object."""
    decoded = decode_struct(value, struct, DecodeMode.OBJECT)
    for mismatch in decoded.mismatches:
        raise _wrong_type(owner, (*path, *mismatch.path), mismatch.problem, mismatch.hint or "correct the value")
    return decoded.value


def _wrong_type(owner: PlacedObject, path: FieldPath, problem: str, hint: str) -> InvalidBundle:
    where = f"{owner.place}: " if owner.place else ""
    kind = text(owner.value.get("kind"))
    return InvalidBundle(f"{where}{kind}: {format_path(path)} {problem}", hint=hint)


def _rules(decoded: Mapping[str, Any]) -> tuple[PolicyRule, ...]:
    return tuple(dict.fromkeys(map(PolicyRule.from_decoded, decoded.get("rules") or ())))


class _Roles:
    """The roles and bindings among the objects of a bundle."""

    def __init__(self, by_kind: Mapping[str, Sequence[PlacedObject]], accounts: set[str]) -> None:
        self._objects = {
            kind: [_decode(each, each.value, kind) for each in by_kind.get(kind, ())] for kind in RBAC_KINDS
        }
        self._accounts = accounts
        self._rules = {
            (kind, _name(role)): _rules(role) for kind in ("Role", "ClusterRole") for role in self._objects[kind]
        }

    def grants(self) -> Iterator[Grant]:
        """Yield what bindings grant, and what is added to the roles of users."""
        for kind, scope in (("ClusterRoleBinding", PermissionScope.CLUSTER), ("RoleBinding", PermissionScope.OWN)):
            for binding in self._objects[kind]:
                yield from self._grants_of(binding, kind, scope)
        for role in self._objects["ClusterRole"]:
            labels = role.get("metadata", {}).get("labels") or {}
            for label, value in sorted(labels.items()):
                if label.startswith(_AGGREGATE) and value == "true":
                    subject = f"Users with ClusterRole {label.removeprefix(_AGGREGATE)}"
                    yield Grant(subject, False, PermissionScope.CLUSTER, f"ClusterRole {_name(role)}", _rules(role))

    def _grants_of(self, binding: Mapping[str, Any], kind: str, scope: PermissionScope) -> Iterator[Grant]:
        reference = binding.get("roleRef", {})
        role = (str(reference.get("kind", "")), str(reference.get("name", "")))
        rules = self._rules.get(role)
        if rules is None and role[0] == "ClusterRole":
            rules = _KNOWN_ROLES.get(role[1])
        unknown = "" if rules is not None else " ".join(role)
        for subject in binding.get("subjects") or ():
            name, is_operator = self._subject(subject)
            yield Grant(name, is_operator, scope, f"{kind} {_name(binding)}", rules or (), unknown)

    def _subject(self, subject: Mapping[str, Any]) -> tuple[str, bool]:
        kind, name = str(subject.get("kind", "")), str(subject.get("name", ""))
        if kind != "ServiceAccount":
            return f"{kind} {name}", False
        if name in self._accounts:  # the namespace of the operator is not known when a bundle is written
            return name, True
        namespace = subject.get("namespace")
        return (f"{namespace}/{name}" if namespace else name), False


def _name(value: Mapping[str, Any]) -> str:
    return str(value.get("metadata", {}).get("name", ""))
