"""Who may do what once a bundle is installed.

The permissions of the ClusterServiceVersion belong to its service accounts. OLM binds ``clusterPermissions`` in the
whole cluster, and ``permissions`` in the watched namespaces, which is the whole cluster for an operator that watches
all namespaces. Bundles can also contain roles and bindings, which OLM applies to the namespace of the operator. A role
gives its rules to everyone who is bound to its name, because OLM v0 replaces existing roles.

Whatever OLM v0 or OLM v1 might read counts: OLM v1 reads all documents and lists, OLM v0 ignores the case of fields and
the API groups of roles. What the two read differently is an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from opmkit.bundle.api_types.decode import CSV, DecodeMode, decode_struct
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND
from opmkit.bundle.permissions.kinds import PermissionScope
from opmkit.bundle.permissions.objects import (
    DEFAULT_ROLES,
    OPENSHIFT_RBAC,
    RBAC_KINDS,
    SHARED_ACCOUNTS,
    InstalledObject,
    definition_group,
    installed_objects,
    is_foreign_group,
    own_definitions,
    pod_account,
)
from opmkit.bundle.permissions.rule import ANY, PolicyRule
from opmkit.bundle.rendering.objects import account_of
from opmkit.bundle.rendering.registry_v1 import ALL_NAMESPACES, object_name, read_objects
from opmkit.core.json_types import JsonResult
from opmkit.documents.fields import format_path
from opmkit.documents.lenient import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.api_types.decode import UnknownField
    from opmkit.documents.fields import FieldPath

_AGGREGATE = re.compile(r"(.*/)?aggregate-to-(?P<role>.+)", re.DOTALL)
"""Labels of ClusterRoles whose rules are added to another one: those of Kubernetes, OpenShift and others."""
_DESCRIPTIVE = re.compile(r"app|control-plane|(app\.kubernetes\.io|helm\.sh|olm|operators\.coreos\.com)/.*", re.DOTALL)
"""Labels that describe ClusterRoles; no role of Kubernetes, OpenShift or a known operator selects rules by them."""
_CLUSTER_ADMIN = PolicyRule((ANY,), (ANY,), (ANY,))
_READ_NAMESPACES = PolicyRule(("get", "list", "watch"), ("",), ("namespaces",))
_OLM = "OLM"
"""Source of the permissions that OLM adds."""
_ACCOUNT = "ServiceAccount"
_ACCOUNT_PREFIX = "system:serviceaccount:"
"""Beginning of the names by which service accounts are users."""
_SYSTEM_NAMESPACE = "kube-"
"""Beginning of the names of namespaces whose service accounts belong to Kubernetes, whatever their names."""
MAX_COMBINATIONS = 100_000
"""Maximum number of combinations of subjects, verbs, groups, resources and names in the permissions of a bundle."""
MAX_WEBHOOK_RULES = 1000
"""Maximum number of rules of a bundle's webhooks."""
MAX_AGGREGATIONS = 100
"""Maximum number of ClusterRoles of a bundle that aggregate others."""
_PUBLIC_URLS = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_KNOWN_ROLES: Mapping[str, tuple[PolicyRule, ...]] = {
    "cluster-admin": (_CLUSTER_ADMIN, PolicyRule((ANY,), urls=(ANY,))),
    "system:auth-delegator": (
        PolicyRule(("create",), ("authentication.k8s.io",), ("tokenreviews",)),
        PolicyRule(("create",), ("authorization.k8s.io",), ("subjectaccessreviews",)),
    ),
    "system:discovery": (
        PolicyRule(("get",), urls=(*_PUBLIC_URLS, "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")),
    ),
    "system:public-info-viewer": (PolicyRule(("get",), urls=_PUBLIC_URLS),),
}
"""The rules of roles of every cluster that operators bind."""


@dataclass(frozen=True, slots=True)
class Grant(JsonResult):
    """The rules that a subject gets from one place in a bundle.

    Attributes:
        subject: The service account, ``NAMESPACE/NAME`` for one of another namespace, or another subject such as
            ``Group system:authenticated``.
        is_operator: Whether the subject is a service account of the operator.
        scope: Where the rules apply.
        source: ``clusterPermissions``, ``permissions``, ``OLM``, or kind and name of a binding or role.
        rules: The rules.
        unknown_role: The role whose rules are granted but not known, or not all of them.
        is_other: Whether the bundle does not define the subject, such as a user, a group or an account of others, or
            others use it as well, such as the account ``default``.
    """

    subject: str
    is_operator: bool
    scope: PermissionScope
    source: str
    rules: tuple[PolicyRule, ...] = ()
    unknown_role: str = ""
    is_other: bool = False


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
        versions: Versions of the APIs.
        scope: ``Cluster`` for objects without a namespace, ``Namespaced`` for others, or ``*``.
        is_exact: Whether it only sees requests for these groups and versions, and none for the same objects by others.
    """

    webhook: str
    changes: bool
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    operations: tuple[str, ...]
    selector: str = ""
    versions: tuple[str, ...] = (ANY,)
    scope: str = ANY
    is_exact: bool = False

    def covers(self, other: Interception) -> bool:
        """Whether the webhook sees all requests of another one, and can do the same to them."""
        return (
            (self.changes or not other.changes)
            and self.selector in ("", other.selector)
            and (ANY in self.groups or set(other.groups) <= set(self.groups))
            and (ANY in self.operations or set(other.operations) <= set(self.operations))
            and (ANY in self.versions or set(other.versions) <= set(self.versions))
            and self.scope in (ANY, other.scope)
            and self.is_exact <= other.is_exact
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
        own_definitions: Names of the CustomResourceDefinitions that the bundle contains, and its operator owns.
        objects: All objects of the bundle, and the deployments of the ClusterServiceVersion.
    """

    bundle: str
    install_modes: tuple[str, ...]
    own_groups: frozenset[str]
    grants: tuple[Grant, ...]
    interceptions: tuple[Interception, ...] = ()
    own_definitions: frozenset[str] = frozenset()
    objects: tuple[InstalledObject, ...] = ()

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
    found = list(objects)
    by_kind: dict[str, list[PlacedObject]] = defaultdict(list)
    for each in found:
        by_kind[text(each.value.get("kind"))].append(each)
    csv = _decode(_only_csv(by_kind[CSV_KIND]), CSV)
    spec = csv.get("spec", {})
    modes = {str(mode.get("type", "")) for mode in spec.get("installModes") or () if mode.get("supported")}
    granted = list(_csv_grants(spec, watches_all=ALL_NAMESPACES in modes))
    defined = {grant.subject for grant in granted if grant.source != _OLM} - SHARED_ACCOUNTS
    defined.update(object_name(each.value) for each in by_kind[_ACCOUNT])
    operator = {grant.subject for grant in granted} | set(_accounts_of_deployments(spec))
    definitions = [each.value for each in by_kind[CRD_KIND]]
    groups = frozenset(group for group in map(definition_group, definitions) if not is_foreign_group(group))
    own = own_definitions(definitions, csv)
    return Permissions(
        str(csv.get("metadata", {}).get("name", "")),
        tuple(sorted(modes)),
        groups,
        tuple(_limit(chain(granted, _Roles(by_kind, operator, defined).grants()))),
        _interceptions(spec),
        own,
        tuple(installed_objects((each.value for each in found), csv, own, defined)),
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
        left -= 1 + sum(max(rule.size, 1) for rule in grant.rules)
        if left < 0:
            message = f"the permissions have more than {MAX_COMBINATIONS:,} combinations of verbs and resources"
            raise InvalidBundle(message, hint="use fewer rules, subjects or names")
        yield grant


def _csv_grants(spec: Mapping[str, Any], *, watches_all: bool) -> Iterator[Grant]:
    """Yield the permissions of the ClusterServiceVersion, and those that OLM adds to them."""
    strategy = _strategy(spec)
    for key, scope in (("clusterPermissions", PermissionScope.CLUSTER), ("permissions", PermissionScope.WATCHED)):
        for granted in strategy.get(key) or ():
            account = account_of(granted)
            yield Grant(account, True, scope, key, _rules(granted), is_other=account in SHARED_ACCOUNTS)
    added: dict[str, list[PolicyRule]] = defaultdict(list)
    for granted in strategy.get("permissions") or () if watches_all else ():
        added[account_of(granted)].append(_READ_NAMESPACES)
    if spec.get("webhookdefinitions") or spec.get("apiservicedefinitions", {}).get("owned"):
        for account in _accounts_of_deployments(spec):
            added[account] += _KNOWN_ROLES["system:auth-delegator"]
    for account, rules in added.items():
        yield Grant(account, True, PermissionScope.CLUSTER, _OLM, tuple(dict.fromkeys(rules)))


def _strategy(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = spec.get("install", {}).get("spec", {})
    return found


def _accounts_of_deployments(spec: Mapping[str, Any]) -> Iterator[str]:
    for deployment in _strategy(spec).get("deployments") or ():
        yield pod_account(deployment.get("spec", {}).get("template", {}).get("spec", {}))


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
            _sorted(rule.get("apiVersions")),
            rule.get("scope") or ANY,
            webhook.get("matchPolicy") == "Exact",
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
    """The roles and bindings among the objects of a bundle.

    Args:
        by_kind: The objects.
        operator: Names of the operator's service accounts.
        defined: Names of the service accounts that the bundle defines.
    """

    def __init__(
        self, by_kind: Mapping[str, Sequence[PlacedObject]], operator: Collection[str], defined: Collection[str]
    ) -> None:
        self._objects = {kind: [_decode_rbac(each, kind) for each in by_kind.get(kind, ())] for kind in RBAC_KINDS}
        self._operator, self._defined = operator, defined
        self._content = cache(self._read_content)
        self._roles: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for kind in ("Role", "ClusterRole"):
            for role in self._objects[kind]:
                self._roles[kind, _name(role)].append(role)
        self._rules = {id(role): _rules(role) for roles in self._roles.values() for role in roles}
        if sum(bool(_selectors(role)) for role in self._objects["ClusterRole"]) > MAX_AGGREGATIONS:
            message = f"more than {MAX_AGGREGATIONS} ClusterRoles aggregate others"
            raise InvalidBundle(message, hint="use fewer aggregationRules")

    def grants(self) -> Iterator[Grant]:
        """Yield what bindings grant, and what roles add to the permissions of those who are bound to them."""
        for kind, scope in (("ClusterRoleBinding", PermissionScope.CLUSTER), ("RoleBinding", PermissionScope.OWN)):
            for binding in self._objects[kind]:
                yield from self._grants_of(binding, kind, scope)
        for name in dict.fromkeys(map(_name, self._objects["ClusterRole"])):
            yield from self._grants_to_users("ClusterRole", name, PermissionScope.CLUSTER)
        for name in dict.fromkeys(map(_name, self._objects["Role"])):
            yield from self._grants_to_users("Role", name, PermissionScope.OWN)

    def _grants_to_users(self, kind: str, name: str, scope: PermissionScope) -> Iterator[Grant]:
        """Yield what those get who are bound to a role, or to a ClusterRole that selects its rules by labels."""
        source, roles = f"{kind} {name}", self._roles[kind, name]
        is_default = bool(DEFAULT_ROLES.fullmatch(name))
        # users of a role that exists in every cluster have its rules already; the bundle adds its own
        content = self._content_of_bundle(kind, name) if is_default else self._content(kind, name)
        yield Grant(f"Users with {source}", False, scope, source, *content, is_other=is_default)
        rules, unknown = self._content(kind, name)
        labels = [item for role in roles for item in sorted(_labels(role).items())] if kind == "ClusterRole" else []
        for label, value in dict.fromkeys(labels):
            match = _AGGREGATE.fullmatch(label)
            if match and value == "true":
                yield Grant(f"Users with {kind} {match['role']}", False, scope, source, rules, unknown, True)
            elif match or not _DESCRIPTIVE.fullmatch(label):
                subject = f"Users with ClusterRoles that aggregate {label}={value}"
                yield Grant(subject, False, scope, source, rules, unknown)

    def _grants_of(self, binding: Mapping[str, Any], kind: str, scope: PermissionScope) -> Iterator[Grant]:
        reference = binding.get("roleRef", {})
        rules, unknown = self._content(str(reference.get("kind", "")), str(reference.get("name", "")))
        for subject in binding.get("subjects") or ():
            name, is_operator, is_other = self._subject(subject)
            yield Grant(name, is_operator, scope, f"{kind} {_name(binding)}", rules, unknown, is_other)

    def _read_content(self, kind: str, name: str) -> tuple[tuple[PolicyRule, ...], str]:
        """Return the rules of a role, and its name if these are not known, or not all of them."""
        known = _KNOWN_ROLES.get(name) if kind == "ClusterRole" else None
        is_default = kind == "ClusterRole" and bool(DEFAULT_ROLES.fullmatch(name))
        rules, unknown = self._content_of_bundle(kind, name)
        if not unknown and known is None and (is_default or (kind, name) not in self._roles):
            unknown = f"{kind} {name}"
        return tuple(dict.fromkeys((*(known or ()), *rules))), unknown

    def _content_of_bundle(self, kind: str, name: str) -> tuple[tuple[PolicyRule, ...], str]:
        """Return the rules that the bundle gives a role, and its name and labels if it aggregates others."""
        roles = self._roles.get((kind, name), [])
        labels = " or ".join(_selector_text(each) or "any labels" for role in roles for each in _selectors(role))
        unknown = f"{kind} {name}, which aggregates ClusterRoles with {labels}," if labels else ""
        rules = (rule for role in self._with_aggregated(roles) for rule in self._rules[id(role)])
        return tuple(dict.fromkeys(rules)), unknown

    def _with_aggregated(self, roles: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return roles, the ClusterRoles that they aggregate, and those that these aggregate."""
        found = {id(role): role for role in roles}
        added = list(roles)
        while selectors := [each for role in added for each in _selectors(role)]:
            left = (each for each in self._objects["ClusterRole"] if id(each) not in found)
            added = [each for each in left if _matches_any(each, selectors)]
            found.update((id(role), role) for role in added)
        return list(found.values())

    def _subject(self, subject: Mapping[str, Any]) -> tuple[str, bool, bool]:
        """Return the name of a subject, whether it is the operator's, and whether the bundle does not define it.

        A bundle does not determine the namespace of the operator, so an account of the same name counts in each, except
        in those of Kubernetes.
        """
        kind, namespace, name = (str(subject.get(key) or "") for key in ("kind", "namespace", "name"))
        if kind != _ACCOUNT and name.startswith(_ACCOUNT_PREFIX):  # the user that a service account is
            namespace, _, name = name.removeprefix(_ACCOUNT_PREFIX).partition(":")
        elif kind != _ACCOUNT:
            return f"{kind} {name}", False, True
        is_operator = name in self._operator
        is_own = (is_operator or name in self._defined) and name not in SHARED_ACCOUNTS
        is_defined = is_own and not namespace.startswith(_SYSTEM_NAMESPACE)
        return (f"{namespace}/{name}" if namespace else name), is_operator, not is_defined


def _decode_rbac(owner: PlacedObject, kind: str) -> Mapping[str, Any]:
    """Decode a role or binding; OLM v1 lets OpenShift read those of its own API group, with its fields and defaults.

    Raises:
        InvalidBundle: See `_decode`.
    """
    decoded = _decode(owner, kind)
    if not text(owner.value.get("apiVersion")).startswith(f"{OPENSHIFT_RBAC}/"):
        return decoded
    if kind in ("Role", "ClusterRole"):
        rules = decoded.get("rules") or ()
        return {**decoded, "rules": [{**rule, "apiGroups": rule.get("apiGroups") or [ANY]} for rule in rules]}
    reference = decoded.get("roleRef", {})
    default = "Role" if mapping(owner.value.get("roleRef")).get("namespace") else "ClusterRole"
    subjects = [
        {"kind": subject, "name": text(name)}
        for key, subject in (("userNames", "User"), ("groupNames", "Group"))
        for name in items(owner.value.get(key))
    ]
    return {
        **decoded,
        "roleRef": {**reference, "kind": reference.get("kind") or default},
        "subjects": [*(decoded.get("subjects") or ()), *subjects],
    }


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
