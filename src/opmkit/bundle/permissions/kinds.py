"""Dangerous permissions: their kinds, where they apply, and lists of allowed ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from opmkit.core.json_types import JsonResult

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

BUNDLE_SUBJECT = "the bundle"
"""Subject of what objects of a bundle do themselves; no account has this name."""


class DangerKind(StrEnum):
    """Kinds of dangerous permissions, the most dangerous first."""

    EVERYTHING = "everything"
    """All verbs on all resources: the role cluster-admin."""
    SECRETS = "secrets"
    """Secrets are read or changed."""
    WILDCARD = "wildcard"
    """A wildcard for verbs, resources, API groups or URLs, except for all verbs on resources of the operator."""
    ESCALATE = "escalate"
    """Permissions that the operator does not have are added to roles, or come with operators that it installs."""
    BIND = "bind"
    """Roles are bound that the operator does not have."""
    IMPERSONATE = "impersonate"
    """Requests are made as another user, group or service account."""
    WEBHOOKS = "webhooks"
    """Admission webhooks or policies are changed, or those of the operator see resources of others."""
    NODES = "nodes"
    """Nodes are changed, their kubelets are called, or their directories are mounted."""
    EXEC = "exec"
    """Commands run in the containers of others."""
    TOKENS = "tokens"
    """Tokens of service accounts are issued or used."""
    ROLES = "roles"
    """Roles and bindings are changed, within the permissions of the operator, or those of the cluster are replaced."""
    OTHERS = "others"
    """Users, groups or service accounts that are not the operator's get permissions."""
    SECURITY_CONTEXT = "security-context"
    """Pods get privileges, by their own settings, security context constraints, pod security policies or namespaces."""
    CERTIFICATES = "certificates"
    """Certificates, such as those of users, are approved or signed."""
    APIS = "apis"
    """CustomResourceDefinitions or API services are changed, or those of others are replaced."""
    PLATFORM = "platform"
    """The configuration of the cluster or its web console is changed."""
    NETWORK = "network"
    """Traffic to services of others is redirected."""
    WORKLOADS = "workloads"
    """Pods run with any service account of their namespace, or those of others are changed."""
    UNKNOWN_ROLE = "unknown-role"
    """A role is bound whose rules the bundle does not contain, or not all of them."""
    UNKNOWN_OBJECT = "unknown-object"
    """An object is installed whose effect is not known."""


_OF_RULES = frozenset(DangerKind) - {DangerKind.OTHERS, DangerKind.UNKNOWN_ROLE, DangerKind.UNKNOWN_OBJECT}
"""Kinds of what rules permit."""
CLUSTER_ONLY = frozenset(
    {DangerKind.WEBHOOKS, DangerKind.NODES, DangerKind.CERTIFICATES, DangerKind.APIS, DangerKind.PLATFORM}
)
"""Kinds that are about objects of the cluster, which a role in a namespace does not reach."""


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
class Danger(JsonResult):
    """A dangerous permission.

    Attributes:
        kind: Its kind.
        may: What the subject may do, such as ``read all secrets``.
        scope: Where.
        subject: The service account, ``the bundle`` for what its objects do, or who else may do it.
    """

    kind: DangerKind
    may: str
    scope: PermissionScope
    subject: str

    def is_of(self, kinds: Collection[str]) -> bool:
        """Return whether it is of one of some kinds, or includes one: all rules can be in an unknown role."""
        is_any_rule = self.kind in (DangerKind.EVERYTHING, DangerKind.UNKNOWN_ROLE)
        return self.kind in kinds or (is_any_rule and not _OF_RULES.isdisjoint(kinds))

    def __str__(self) -> str:
        """Return the permission as the end of a sentence: ``read all secrets in every namespace``."""
        without_scope = self.kind in CLUSTER_ONLY or self.kind is DangerKind.UNKNOWN_OBJECT
        return self.may if without_scope else f"{self.may} {self.scope.phrase}"


def find_unknown_kind(names: Iterable[str]) -> str | None:
    """Return the first of some names that is neither ``KIND`` nor ``PACKAGE/KIND``; None if all are."""
    return next((name for name in names if not _is_known(name)), None)


def allowed_kinds(names: Iterable[str], package: str) -> frozenset[str]:
    """Return the kinds that names, which are ``KIND`` or ``PACKAGE/KIND``, allow for a package."""
    split = (name.rpartition("/") for name in names)
    return frozenset(kind for owner, slash, kind in split if not slash or owner == package)


def _is_known(name: str) -> bool:
    package, slash, kind = name.rpartition("/")
    return kind in tuple(DangerKind) and bool(package) == bool(slash)
