"""Division of roles and bindings: permissions in the CSV, for which OLM creates roles, and manifests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.author.generate import manifests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.author.generate.input import InputObject
    from opmkit.author.generate.manifests import Manifests

_DEFAULT_ACCOUNT = "default"
_RBAC_GROUPS = ("", "rbac.authorization.k8s.io")


@dataclass(frozen=True, slots=True)
class Rbac:
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
        tuple(f"service account {name} has no permissions, so OLM does not create it" for name in missing),
    )


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
