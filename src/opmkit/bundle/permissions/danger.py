"""Permissions by which an operator, or who takes it over, can take over more than its own resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from opmkit.bundle.permissions.grant import PermissionScope
from opmkit.bundle.permissions.kinds import DangerKind
from opmkit.bundle.permissions.rule import ANY, PolicyRule
from opmkit.core.json_types import JsonResult

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from opmkit.bundle.permissions.grant import Grant, Interception


class _Pattern(NamedTuple):
    """What a rule must permit, at least in part, to be dangerous."""

    kind: DangerKind
    phrase: str
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]

    def matches(self, rule: PolicyRule) -> bool:
        return (
            not {ANY, *self.verbs}.isdisjoint(rule.verbs)
            and not {ANY, *self.groups}.isdisjoint(rule.groups)
            and any(map(self._matches, rule.resources))
        )

    def _matches(self, resource: str) -> bool:
        name, slash, subresource = resource.partition("/")
        if slash and f"{name}/*" in self.resources:
            return True
        subresources = {each.partition("/")[2] for each in self.resources} - {""}
        return resource in (ANY, *self.resources) or (name == ANY and not subresources.isdisjoint((subresource, ANY)))


_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete", "deletecollection")
_SET = ("create", "update", "patch")
_CORE = ("",)
_RBAC = ("rbac.authorization.k8s.io", "authorization.openshift.io")
_ADMISSION, _CERTIFICATES = ("admissionregistration.k8s.io",), ("certificates.k8s.io",)
_AUTHENTICATION = ("authentication.k8s.io",)
_IMPERSONATE_LIMITED = (
    "impersonate:user-info", "impersonate:serviceaccount", "impersonate:arbitrary-node", "impersonate:associated-node",
)  # fmt: skip
_WEBHOOKS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
_POLICIES = ("validatingadmissionpolicies", "mutatingadmissionpolicies")
_BINDINGS = ("validatingadmissionpolicybindings", "mutatingadmissionpolicybindings")
_CONTROLLERS = ("deployments", "daemonsets", "statefulsets", "replicasets", "deploymentconfigs")
_PATTERNS = (
    _Pattern(DangerKind.SECRETS, "read {}secrets", _CORE, ("secrets",), _READ),
    _Pattern(DangerKind.SECRETS, "change {}secrets", _CORE, ("secrets",), _WRITE),
    _Pattern(DangerKind.ESCALATE, "add any permission to {}roles", _RBAC, ("roles", "clusterroles"), ("escalate",)),
    _Pattern(
        DangerKind.ESCALATE, "install operators with any permission", ("operators.coreos.com",),
        ("subscriptions", "installplans"), _SET,
    ),
    _Pattern(
        DangerKind.ESCALATE, "install operators with any permission", ("olm.operatorframework.io",),
        ("clusterextensions",), _SET,
    ),
    _Pattern(DangerKind.BIND, "bind {}roles", _RBAC, ("roles", "clusterroles"), ("bind",)),
    _Pattern(
        DangerKind.IMPERSONATE, "act as {}users, groups or service accounts", _CORE,
        ("users", "groups", "serviceaccounts"), ("impersonate",),
    ),
    _Pattern(
        DangerKind.IMPERSONATE, "act with {}user IDs or extra fields of users", _AUTHENTICATION,
        ("uids", "userextras", "userextras/*"), ("impersonate",),
    ),
    _Pattern(
        DangerKind.IMPERSONATE, "act within limits as {}users, groups, service accounts or nodes", _AUTHENTICATION,
        ("users", "groups", "serviceaccounts", "nodes", "uids", "userextras", "userextras/*"), _IMPERSONATE_LIMITED,
    ),
    _Pattern(
        DangerKind.WEBHOOKS, "change {}admission webhooks and policies", _ADMISSION,
        (*_WEBHOOKS, *_POLICIES, *_BINDINGS), _WRITE,
    ),
    _Pattern(DangerKind.NODES, "call the kubelets of {}nodes", _CORE, ("nodes/proxy",), (*_READ, *_SET)),
    _Pattern(DangerKind.NODES, "change {}nodes", _CORE, ("nodes", "nodes/status"), _WRITE),
    _Pattern(
        DangerKind.NODES, "mount directories of nodes as persistent volumes", _CORE, ("persistentvolumes",), _SET,
    ),
    _Pattern(
        DangerKind.EXEC, "run commands in the containers of {}pods", _CORE,
        ("pods/exec", "pods/attach", "pods/ephemeralcontainers"), ("get", *_SET),
    ),
    _Pattern(
        DangerKind.EXEC, "connect to the ports of {}pods", _CORE, ("pods/portforward", "pods/proxy"), ("get", *_SET),
    ),
    _Pattern(DangerKind.TOKENS, "issue tokens of {}service accounts", _CORE, ("serviceaccounts/token",), ("create",)),
    _Pattern(
        DangerKind.ROLES, "change {}roles and bindings", _RBAC,
        ("roles", "rolebindings", "clusterroles", "clusterrolebindings"), _WRITE,
    ),
    _Pattern(
        DangerKind.SECURITY_CONTEXT, "use {}security context constraints", ("security.openshift.io",),
        ("securitycontextconstraints",), ("use",),
    ),
    _Pattern(
        DangerKind.SECURITY_CONTEXT, "change {}security context constraints", ("security.openshift.io",),
        ("securitycontextconstraints",), _WRITE,
    ),
    _Pattern(
        DangerKind.SECURITY_CONTEXT, "use {}pod security policies", ("policy",), ("podsecuritypolicies",), ("use",),
    ),
    _Pattern(
        DangerKind.SECURITY_CONTEXT, "change the pod security of {}namespaces", _CORE, ("namespaces",),
        ("update", "patch"),
    ),
    _Pattern(
        DangerKind.CERTIFICATES, "approve {}certificate requests", _CERTIFICATES,
        ("certificatesigningrequests/approval",), ("update", "patch"),
    ),
    _Pattern(
        DangerKind.CERTIFICATES, "approve and sign for {}signers", _CERTIFICATES, ("signers",), ("approve", "sign"),
    ),
    _Pattern(
        DangerKind.APIS, "change {}CustomResourceDefinitions", ("apiextensions.k8s.io",),
        ("customresourcedefinitions",), _WRITE,
    ),
    _Pattern(DangerKind.APIS, "change {}API services", ("apiregistration.k8s.io",), ("apiservices",), _WRITE),
    _Pattern(DangerKind.WORKLOADS, "run pods", _CORE, ("pods", "replicationcontrollers"), _SET),
    _Pattern(DangerKind.WORKLOADS, "run pods", ("apps", "apps.openshift.io"), _CONTROLLERS, _SET),
    _Pattern(DangerKind.WORKLOADS, "run pods", ("batch",), ("jobs", "cronjobs"), _SET),
)  # fmt: skip
_CLUSTER_ONLY = frozenset({DangerKind.WEBHOOKS, DangerKind.NODES, DangerKind.CERTIFICATES, DangerKind.APIS})
"""Kinds that are about objects of the cluster, which a role in a namespace does not reach."""
_ORDER = {kind: number for number, kind in enumerate(DangerKind)}


@dataclass(frozen=True, slots=True)
class Danger(JsonResult):
    """A dangerous permission.

    Attributes:
        kind: Its kind.
        may: What the subject may do, such as ``read all secrets``.
        scope: Where.
        subject: The service account, or who else may do it.
    """

    kind: DangerKind
    may: str
    scope: PermissionScope
    subject: str

    def __str__(self) -> str:
        """Return the permission as the end of a sentence: ``read all secrets in every namespace``."""
        return self.may if self.kind in _CLUSTER_ONLY else f"{self.may} {self.scope.phrase}"


def find_dangers(grants: Iterable[Grant], own_groups: Collection[str]) -> tuple[Danger, ...]:
    """Return the dangerous permissions of grants, the most dangerous kinds and the widest scopes first.

    Args:
        grants: The grants.
        own_groups: API groups of the operator, on whose resources it may have all verbs.
    """
    found = {danger: None for grant in grants for danger in _dangers_of(grant, own_groups)}
    scopes = list(PermissionScope)
    return tuple(sorted(found, key=lambda danger: (_ORDER[danger.kind], scopes.index(danger.scope))))


def find_interceptions(interceptions: Iterable[Interception], own_groups: Collection[str]) -> tuple[Danger, ...]:
    """Return the webhooks that see resources of other API groups than those of the operator."""
    found: dict[Danger, None] = {}
    for each in interceptions:
        if not set(each.groups) <= set(own_groups):
            what = "change" if each.changes else "reject"
            operations = ", ".join(operation.lower() for operation in each.operations)
            labels = f" with {each.selector}" if each.selector else ""
            may = f"{what} {_listed(each.resources, each.groups)} of others{labels} (webhook, on {operations})"
            found[Danger(DangerKind.WEBHOOKS, may, PermissionScope.CLUSTER, each.webhook)] = None
    return tuple(found)


def _dangers_of(grant: Grant, own_groups: Collection[str]) -> Iterator[Danger]:
    if grant.unknown_role:
        may = f"do what {grant.unknown_role} permits"
        yield Danger(DangerKind.UNKNOWN_ROLE, may, grant.scope, grant.subject)
    for rule in grant.rules:
        if _is_everything(rule):
            yield Danger(DangerKind.EVERYTHING, "do everything", grant.scope, grant.subject)
            continue
        for kind, may in _statements(rule, own_groups):
            if kind not in _CLUSTER_ONLY or grant.scope is PermissionScope.CLUSTER:
                yield Danger(kind, may, grant.scope, grant.subject)


def _is_everything(rule: PolicyRule) -> bool:
    return ANY in rule.verbs and ANY in rule.groups and ANY in rule.resources and not rule.names


def _statements(rule: PolicyRule, own_groups: Collection[str]) -> Iterator[tuple[DangerKind, str]]:
    names = f" named {', '.join(rule.names)}" if rule.names else ""
    for pattern in _PATTERNS:
        if pattern.matches(rule):
            yield pattern.kind, pattern.phrase.format("" if names else "all ") + names
    foreign = [group for group in rule.groups if group not in own_groups]
    if rule.resources and foreign and (ANY in rule.verbs or ANY in rule.resources or ANY in foreign):
        verbs = "do everything with" if ANY in rule.verbs else ", ".join(rule.verbs)
        yield DangerKind.WILDCARD, f"{verbs} {_listed(rule.resources, foreign)}{names}"


def _listed(resources: Collection[str], groups: Collection[str]) -> str:
    what = "all resources" if not {ANY, "*/*"}.isdisjoint(resources) else ", ".join(resources)
    if ANY in groups:
        return f"{what} of all API groups"
    named = [group for group in groups if group]
    return f"{what} of {', '.join(['the core group'] * ('' in groups) + named)}" if named or ANY in resources else what
