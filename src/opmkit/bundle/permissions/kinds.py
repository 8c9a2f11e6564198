"""Kinds of dangerous permissions, and lists of allowed ones."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class DangerKind(StrEnum):
    """Kinds of dangerous permissions, the most dangerous first."""

    EVERYTHING = "everything"
    """All verbs on all resources: the role cluster-admin."""
    SECRETS = "secrets"
    """Secrets are read or changed."""
    WILDCARD = "wildcard"
    """A wildcard for verbs, resources or API groups, except for all verbs on resources of the operator."""
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
    """Tokens of service accounts are issued."""
    ROLES = "roles"
    """Roles and bindings are changed, within the permissions of the operator."""
    SECURITY_CONTEXT = "security-context"
    """Pods get privileges by security context constraints, pod security policies or labels of namespaces."""
    CERTIFICATES = "certificates"
    """Certificates, such as those of users, are approved or signed."""
    APIS = "apis"
    """CustomResourceDefinitions or API services are changed."""
    WORKLOADS = "workloads"
    """Pods run with any service account of their namespace."""
    UNKNOWN_ROLE = "unknown-role"
    """A role is bound whose rules the bundle does not contain, or not all of them."""


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
