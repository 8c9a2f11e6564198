"""Permissions by which an operator, or who takes it over, can take over more than its own resources."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from opmkit.bundle.permissions.grant import PermissionScope
from opmkit.bundle.permissions.rule import ANY, PolicyRule
from opmkit.core.json_types import JsonResult

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from opmkit.bundle.permissions.grant import Grant, Interception


class DangerKind(StrEnum):
    """Kinds of dangerous permissions, the most dangerous first."""

    EVERYTHING = "everything"
    """All verbs on all resources: the role cluster-admin."""
    SECRETS = "secrets"
    """Secrets are read or changed."""
    WILDCARD = "wildcard"
    """A wildcard for verbs, resources or API groups, except for all verbs on resources of the operator."""
    ESCALATE = "escalate"
    """Roles are given permissions that the operator does not have."""
    BIND = "bind"
    """Roles are bound that the operator does not have."""
    IMPERSONATE = "impersonate"
    """Requests are made as another user, group or service account."""
    WEBHOOKS = "webhooks"
    """Admission webhooks or policies are changed, or those of the operator see resources of others."""
    NODES = "nodes"
    """Nodes are changed, or their kubelets are called."""
    EXEC = "exec"
    """Commands run in the containers of others."""
    TOKENS = "tokens"
    """Tokens of service accounts are issued."""
    ROLES = "roles"
    """Roles and bindings are changed, within the permissions of the operator."""
    SECURITY_CONTEXT = "security-context"
    """Pods get privileges by security context constraints or pod security policies."""
    CERTIFICATES = "certificates"
    """Certificates, such as those of users, are approved or signed."""
    APIS = "apis"
    """CustomResourceDefinitions or API services are changed."""
    WORKLOADS = "workloads"
    """Pods run with any service account of their namespace."""
    UNKNOWN_ROLE = "unknown-role"
    """A role of the cluster is bound, whose rules the bundle does not contain."""


class _Pattern(NamedTuple):
    """What a rule must permit, at least in part, to be dangerous."""

    kind: DangerKind
    phrase: str
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]

    def matches(self, rule: PolicyRule) -> bool:
        verbs = ANY in rule.verbs or not set(self.verbs).isdisjoint(rule.verbs)
        return verbs and (ANY in rule.groups or self.group in rule.groups) and any(map(self._matches, rule.resources))

    def _matches(self, resource: str) -> bool:
        if resource == ANY or resource in self.resources:
            return True
        subresources = {each.partition("/")[2] for each in self.resources} - {""}
        return resource.startswith("*/") and resource.removeprefix("*/") in subresources


_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete", "deletecollection")
_SET = ("create", "update", "patch")
_RBAC, _ADMISSION, _CERTIFICATES = "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "certificates.k8s.io"
_WEBHOOKS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
_POLICIES = ("validatingadmissionpolicies", "mutatingadmissionpolicies")
_BINDINGS = ("validatingadmissionpolicybindings", "mutatingadmissionpolicybindings")
_CONTROLLERS = ("deployments", "daemonsets", "statefulsets", "replicasets")
_PATTERNS = (
    _Pattern(DangerKind.SECRETS, "read {}secrets", "", ("secrets",), _READ),
    _Pattern(DangerKind.SECRETS, "change {}secrets", "", ("secrets",), _WRITE),
    _Pattern(DangerKind.ESCALATE, "add any permission to {}roles", _RBAC, ("roles", "clusterroles"), ("escalate",)),
    _Pattern(DangerKind.BIND, "bind {}roles to anyone", _RBAC, ("roles", "clusterroles"), ("bind",)),
    _Pattern(
        DangerKind.IMPERSONATE, "act as {}users, groups or service accounts", "",
        ("users", "groups", "serviceaccounts"), ("impersonate",),
    ),
    _Pattern(
        DangerKind.WEBHOOKS, "change {}admission webhooks and policies", _ADMISSION,
        (*_WEBHOOKS, *_POLICIES, *_BINDINGS), _WRITE,
    ),
    _Pattern(DangerKind.NODES, "call the kubelets of {}nodes", "", ("nodes/proxy",), (*_READ, *_SET)),
    _Pattern(DangerKind.NODES, "change {}nodes", "", ("nodes", "nodes/status"), _WRITE),
    _Pattern(
        DangerKind.EXEC, "run commands in the containers of {}pods", "",
        ("pods/exec", "pods/attach", "pods/ephemeralcontainers"), ("get", *_SET),
    ),
    _Pattern(
        DangerKind.EXEC, "connect to the ports of {}pods", "", ("pods/portforward", "pods/proxy"), ("get", *_SET),
    ),
    _Pattern(DangerKind.TOKENS, "issue tokens of {}service accounts", "", ("serviceaccounts/token",), ("create",)),
    _Pattern(
        DangerKind.ROLES, "change {}roles and bindings", _RBAC,
        ("roles", "rolebindings", "clusterroles", "clusterrolebindings"), _WRITE,
    ),
    _Pattern(
        DangerKind.SECURITY_CONTEXT, "use {}security context constraints", "security.openshift.io",
        ("securitycontextconstraints",), ("use",),
    ),
    _Pattern(
        DangerKind.SECURITY_CONTEXT, "change {}security context constraints", "security.openshift.io",
        ("securitycontextconstraints",), _WRITE,
    ),
    _Pattern(
        DangerKind.SECURITY_CONTEXT, "use {}pod security policies", "policy", ("podsecuritypolicies",), ("use",),
    ),
    _Pattern(
        DangerKind.CERTIFICATES, "approve {}certificate requests", _CERTIFICATES,
        ("certificatesigningrequests/approval",), ("update", "patch"),
    ),
    _Pattern(
        DangerKind.CERTIFICATES, "approve and sign for {}signers", _CERTIFICATES, ("signers",), ("approve", "sign"),
    ),
    _Pattern(
        DangerKind.APIS, "change {}CustomResourceDefinitions", "apiextensions.k8s.io",
        ("customresourcedefinitions",), _WRITE,
    ),
    _Pattern(DangerKind.APIS, "change {}API services", "apiregistration.k8s.io", ("apiservices",), _WRITE),
    _Pattern(DangerKind.WORKLOADS, "run pods", "", ("pods", "replicationcontrollers"), _SET),
    _Pattern(DangerKind.WORKLOADS, "run pods", "apps", _CONTROLLERS, _SET),
    _Pattern(DangerKind.WORKLOADS, "run pods", "batch", ("jobs", "cronjobs"), _SET),
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


def find_unknown_kind(names: Iterable[str]) -> str:
    """Return the first of some names that is neither a kind nor ``PACKAGE/KIND``, or ""."""
    return next((name for name in names if name.rpartition("/")[2] not in tuple(DangerKind)), "")


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
            may = f"{what} {_listed(each.resources, each.groups)} of others (webhook, on {operations})"
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
    what = "all resources" if ANY in resources else ", ".join(resources)
    if ANY in groups:
        return f"{what} of all API groups"
    named = [group for group in groups if group]
    return f"{what} of {', '.join(['the core group'] * ('' in groups) + named)}" if named or ANY in resources else what
