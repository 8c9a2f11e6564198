"""Who may do what once a bundle is installed.

The permissions of the ClusterServiceVersion belong to its service accounts. OLM binds ``clusterPermissions`` in the
whole cluster, and ``permissions`` in the watched namespaces, which is the whole cluster for an operator that watches
all namespaces. Bundles can also contain roles and bindings, which OLM applies to the namespace of the operator.

Whatever OLM v0 or OLM v1 might read counts: OLM v1 reads all documents and lists, OLM v0 ignores the case of fields and
the API groups of roles. What the two read differently is an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from opmkit.bundle.api_types.decode import CSV, DecodeMode, decode_struct
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND
from opmkit.bundle.permissions.rule import ANY, PolicyRule
from opmkit.bundle.rendering.registry_v1 import ALL_NAMESPACES, read_objects
from opmkit.core.json_types import JsonResult
from opmkit.documents.fields import format_path
from opmkit.documents.lenient import mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.api_types.decode import UnknownField
    from opmkit.documents.fields import FieldPath

RBAC_KINDS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_CLUSTER_ADMIN = PolicyRule((ANY,), (ANY,), (ANY,))
_FOREIGN_GROUPS = re.compile(
    r"[^.]*|(.*\.)?(k8s\.io|kubernetes\.io)|operators\.coreos\.com|olm\.operatorframework\.io|"
    r"(apps|authorization|build|config|image|machine|machineconfiguration|oauth|operator|project|quota|route|security|"
    r"template|user)\.openshift\.io"
)
"""API groups of Kubernetes, OLM and OpenShift; an operator that ships a definition for one does not own them."""
_DEFAULT_ROLES = re.compile(r"cluster-admin|admin|edit|view|system:.*", re.DOTALL)
"""ClusterRoles of every cluster; the bundle's rules of such a role are not all that it permits."""
MAX_COMBINATIONS = 100_000
"""Maximum number of combinations of subjects, verbs, groups, resources and names in the permissions of a bundle."""
MAX_WEBHOOK_RULES = 1000
"""Maximum number of rules of a bundle's webhooks."""
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
        unknown_role: The role whose rules are granted but not known, or not all of them.
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
        selector: The labels of the objects, such as ``app=lagoon``; "" for all objects.
    """

    webhook: str
    changes: bool
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    operations: tuple[str, ...]
    selector: str = ""

    def covers(self, other: Interception) -> bool:
        """Whether the webhook sees all requests of another one, and can do the same to them."""
        return (
            (self.changes or not other.changes)
            and self.selector in ("", other.selector)
            and (ANY in self.groups or set(other.groups) <= set(self.groups))
            and (ANY in self.operations or set(other.operations) <= set(self.operations))
            and all(map(self._sees, other.resources))
        )

    def _sees(self, resource: str) -> bool:
        """Whether a resource is among those of the webhook, of which ``*`` is all without subresources."""
        name, slash, subresource = resource.partition("/")
        wider = {"*/*", f"{name}/*", f"*/{subresource}"} if slash else {ANY, "*/*"}
        return not wider.isdisjoint(self.resources) or resource in self.resources


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


def read_file_permissions(files: Mapping[str, bytes]) -> Permissions:
    """Return the permissions in the files of a bundle, given by their paths.

    Raises:
        InvalidBundle: A file contains something else than objects, or see `read_permissions`.
    """
    return read_permissions(PlacedObject(f"{path}:{line}", value) for path, line, value in read_objects(files))


def read_permissions(objects: Iterable[PlacedObject]) -> Permissions:
    """Return the permissions in the objects of a bundle.

    Raises:
        InvalidBundle: There is not exactly one ClusterServiceVersion, a field of it or of a role or binding has the
            wrong type or a misspelt name, or the permissions are too many.
    """
    by_kind: dict[str, list[PlacedObject]] = defaultdict(list)
    for each in objects:
        by_kind[text(each.value.get("kind"))].append(each)
    csv = _decode(_only_csv(by_kind[CSV_KIND]), CSV)
    spec = csv.get("spec", {})
    strategy = spec.get("install", {}).get("spec", {})
    modes = (mode for mode in spec.get("installModes") or () if mode.get("supported"))
    granted = list(_csv_grants(strategy))
    accounts = {grant.subject for grant in granted} | set(_accounts_of_deployments(strategy))
    return Permissions(
        str(csv.get("metadata", {}).get("name", "")),
        tuple(sorted({str(mode.get("type", "")) for mode in modes})),
        frozenset(_own_groups(each.value for each in by_kind[CRD_KIND])),
        tuple(_limit(chain(granted, _Roles(by_kind, accounts).grants()))),
        _interceptions(spec),
    )


def _only_csv(found: Sequence[PlacedObject]) -> PlacedObject:
    if not found:
        raise InvalidBundle(f"no {CSV_KIND} found", hint=f"add a {CSV_KIND} to the manifests directory")
    if len(found) > 1:
        where = f"{found[1].place}: " if found[1].place else ""
        raise InvalidBundle(f"{where}more than one {CSV_KIND} found", hint=f"keep one {CSV_KIND}")
    return found[0]


def _limit(grants: Iterable[Grant]) -> Iterator[Grant]:
    """Yield the grants; raise InvalidBundle for too many."""
    left = MAX_COMBINATIONS
    for grant in grants:
        left -= 1
        for rule in grant.rules:
            left -= max(rule.size, 1)
            if left < 0:
                message = f"the permissions have more than {MAX_COMBINATIONS:,} combinations of verbs and resources"
                raise InvalidBundle(message, hint="use fewer rules, subjects or names")
        yield grant


def _csv_grants(strategy: Mapping[str, Any]) -> Iterator[Grant]:
    for key, scope in (("clusterPermissions", PermissionScope.CLUSTER), ("permissions", PermissionScope.WATCHED)):
        for granted in strategy.get(key) or ():
            yield Grant(granted.get("serviceAccountName") or "default", True, scope, key, _rules(granted))


def _accounts_of_deployments(strategy: Mapping[str, Any]) -> Iterator[str]:
    for deployment in strategy.get("deployments") or ():
        pod = deployment.get("spec", {}).get("template", {}).get("spec", {})
        yield pod.get("serviceAccountName") or pod.get("serviceAccount") or "default"


def _own_groups(definitions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for definition in definitions:
        group = text(mapping(definition.get("spec")).get("group"))
        if not _FOREIGN_GROUPS.fullmatch(group):
            yield group


def _interceptions(spec: Mapping[str, Any]) -> tuple[Interception, ...]:
    webhooks = spec.get("webhookdefinitions") or ()
    # OLM requires that conversion webhooks convert resources of the operator
    found = [each for each in webhooks if each.get("type") != "ConversionWebhook"]
    if sum(len(webhook.get("rules") or ()) for webhook in found) > MAX_WEBHOOK_RULES:
        raise InvalidBundle(f"the webhooks have more than {MAX_WEBHOOK_RULES:,} rules", hint="use fewer rules")
    return tuple(
        Interception(
            str(webhook.get("generateName", "")),
            webhook.get("type") == "MutatingAdmissionWebhook",
            _sorted(rule.get("apiGroups")),
            _sorted(rule.get("resources")),
            _sorted(rule.get("operations")),
            _selector_text(webhook.get("objectSelector") or {}),
        )
        for webhook in found
        for rule in webhook.get("rules") or ()
    )


def _sorted(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(sorted(set(values or ())))


def _selector_text(selector: Mapping[str, Any]) -> str:
    labels = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for each in selector.get("matchExpressions") or ():
        words = (each.get("key", ""), each.get("operator", ""), *each.get("values", ()))
        labels.append(" ".join(map(str, words)))
    return ", ".join(labels)


def _decode(owner: PlacedObject, struct: str) -> Mapping[str, Any]:
    """Decode an object.

    Raises:
        InvalidBundle: A value has the wrong type, or the name of a field the wrong case.
    """
    decoded = decode_struct(dict(owner.value), struct, DecodeMode.OBJECT)
    for mismatch in decoded.mismatches:
        raise _invalid(owner, mismatch.path, mismatch.problem, mismatch.hint or "correct the value")
    for unknown in decoded.unknown:
        if meant := _meant(unknown):
            problem = f"is not a field: OLM v0 reads it as {meant}, and OLM v1 ignores it"
            raise _invalid(owner, unknown.path, problem, f"write {meant}")
    return decoded.value


def _meant(unknown: UnknownField) -> str:
    """Return the field that decoders of Go read for an unknown one, or ""."""
    folded = str(unknown.path[-1]).casefold()
    return next((known for known in unknown.known if known.casefold() == folded), "")


def _invalid(owner: PlacedObject, path: FieldPath, problem: str, hint: str) -> InvalidBundle:
    where = f"{owner.place}: " if owner.place else ""
    return InvalidBundle(f"{where}{text(owner.value.get('kind'))}: {format_path(path)} {problem}", hint=hint)


def _rules(decoded: Mapping[str, Any]) -> tuple[PolicyRule, ...]:
    return tuple(dict.fromkeys(map(PolicyRule.from_decoded, decoded.get("rules") or ())))


class _Roles:
    """The roles and bindings among the objects of a bundle."""

    def __init__(self, by_kind: Mapping[str, Sequence[PlacedObject]], accounts: set[str]) -> None:
        self._objects = {kind: [_decode(each, kind) for each in by_kind.get(kind, ())] for kind in RBAC_KINDS}
        self._accounts = accounts
        self._content = cache(self._read_content)
        self._roles: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for kind in ("Role", "ClusterRole"):
            for role in self._objects[kind]:
                self._roles[kind, _name(role)].append(role)

    def grants(self) -> Iterator[Grant]:
        """Yield what bindings grant, and what is added to the roles of users."""
        for kind, scope in (("ClusterRoleBinding", PermissionScope.CLUSTER), ("RoleBinding", PermissionScope.OWN)):
            for binding in self._objects[kind]:
                yield from self._grants_of(binding, kind, scope)
        for role in self._objects["ClusterRole"]:
            for label, value in sorted(_labels(role).items()):
                if label.startswith(_AGGREGATE) and value == "true":
                    subject = f"Users with ClusterRole {label.removeprefix(_AGGREGATE)}"
                    content = self._content("ClusterRole", _name(role))
                    yield Grant(subject, False, PermissionScope.CLUSTER, f"ClusterRole {_name(role)}", *content)

    def _grants_of(self, binding: Mapping[str, Any], kind: str, scope: PermissionScope) -> Iterator[Grant]:
        reference = binding.get("roleRef", {})
        rules, unknown = self._content(str(reference.get("kind", "")), str(reference.get("name", "")))
        for subject in binding.get("subjects") or ():
            name, is_operator = self._subject(subject)
            yield Grant(name, is_operator, scope, f"{kind} {_name(binding)}", rules, unknown)

    def _read_content(self, kind: str, name: str) -> tuple[tuple[PolicyRule, ...], str]:
        """Return the rules of a role, and its name if these are not known, or not all of them."""
        roles = self._roles.get((kind, name), [])
        known = _KNOWN_ROLES.get(name) if kind == "ClusterRole" else None
        is_default = kind == "ClusterRole" and bool(_DEFAULT_ROLES.fullmatch(name))
        selectors = [each for role in roles for each in _selectors(role)]
        aggregated = [each for each in self._objects["ClusterRole"] if _matches_any(each, selectors)]
        rules = (*(known or ()), *(rule for role in (*roles, *aggregated) for rule in _rules(role)))
        unknown = ""
        if selectors:
            labels = " or ".join(_selector_text(each) or "any labels" for each in selectors)
            unknown = f"{kind} {name}, which aggregates ClusterRoles with {labels},"
        elif known is None and (is_default or not roles):
            unknown = f"{kind} {name}"
        return tuple(dict.fromkeys(rules)), unknown

    def _subject(self, subject: Mapping[str, Any]) -> tuple[str, bool]:
        """Return the name of a subject, and whether it is a service account of the operator.

        A bundle does not determine the namespace of the operator, so an account of the same name counts in each.
        """
        kind, name = str(subject.get("kind", "")), str(subject.get("name", ""))
        if kind != "ServiceAccount":
            return f"{kind} {name}", False
        namespace = subject.get("namespace")
        return (f"{namespace}/{name}" if namespace else name), name in self._accounts


def _labels(value: Mapping[str, Any]) -> Mapping[str, str]:
    return value.get("metadata", {}).get("labels") or {}


def _selectors(role: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list((role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ())


def _matches_any(role: Mapping[str, Any], selectors: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a role has the labels of a selector; expressions count as if they matched."""
    labels = _labels(role).items()
    return any((each.get("matchLabels") or {}).items() <= labels for each in selectors)


def _name(value: Mapping[str, Any]) -> str:
    return str(value.get("metadata", {}).get("name", ""))
