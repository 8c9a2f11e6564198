"""The permissions of a bundle, and their difference between two versions, for people and programs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from opmkit.bundle.permissions.danger import find_dangers, find_interceptions, sort_dangers
from opmkit.bundle.permissions.kinds import BUNDLE_SUBJECT, Danger, DangerKind, PermissionScope
from opmkit.bundle.permissions.rule import OwnedRules, PolicyRule
from opmkit.bundle.rendering.registry_v1 import ALL_NAMESPACES
from opmkit.core.json_types import JsonResult, to_json_types

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.bundle.permissions.grant import Grant, Permissions

_OPERATOR = "/"
"""Owner of the permissions of all service accounts of the operator; no subject has this name."""


@dataclass(frozen=True, slots=True)
class PermissionReport(JsonResult):
    """What the operator of a bundle may do.

    Attributes:
        permissions: All permissions.
        dangers: The dangerous ones, the most dangerous first.
    """

    permissions: Permissions
    dangers: tuple[Danger, ...]

    @classmethod
    def of(cls, permissions: Permissions) -> PermissionReport:
        """Return the report of a bundle."""
        return cls(permissions, _dangers(permissions))

    def to_dict(self) -> dict[str, Any]:
        """Return the report in JSON types."""
        fields: dict[str, Any] = self.permissions.to_dict()
        return {**fields, "dangers": to_json_types(self.dangers)}


@dataclass(frozen=True, slots=True)
class PermissionDiff(JsonResult):
    """The difference between the permissions of two versions.

    Permissions that another one covered before are not gained, whoever of the operator's service accounts has them.

    Attributes:
        old: Name of the bundle before.
        new: Name of the bundle after.
        gained: What is permitted now.
        gained_dangers: What of it is dangerous.
        lost: What is permitted no longer.
        lost_dangers: What of it is dangerous.
    """

    old: str
    new: str
    gained: tuple[Grant, ...]
    gained_dangers: tuple[Danger, ...]
    lost: tuple[Grant, ...] = ()
    lost_dangers: tuple[Danger, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.gained or self.lost or self.gained_dangers or self.lost_dangers)


def compare_permissions(old: Permissions, new: Permissions) -> PermissionDiff:
    """Return the difference between the permissions of two versions."""
    gained, lost = tuple(_gained(old, new)), tuple(_gained(new, old))
    return PermissionDiff(
        old.bundle,
        new.bundle,
        gained,
        _gained_dangers(gained, old, new),
        lost,
        _gained_dangers(lost, new, old),
    )


def _dangers(permissions: Permissions) -> tuple[Danger, ...]:
    grants, own = _widest(permissions) if permissions.watches_all else permissions.grants, permissions.own_definitions
    interceptions = find_interceptions(permissions.interceptions, own)
    return sort_dangers((*find_dangers(grants, own), *interceptions, *_object_dangers(permissions)))


def _gained_dangers(gained: Sequence[Grant], old: Permissions, new: Permissions) -> tuple[Danger, ...]:
    own = new.own_definitions
    seen = [each for each in new.interceptions if not any(before.covers(each) for before in old.interceptions)]
    return sort_dangers(
        (*find_dangers(gained, own), *find_interceptions(seen, own), *_new_objects(old, new), *_new_owners(old, new))
    )


def _new_objects(old: Permissions, new: Permissions) -> Iterator[Danger]:
    """Yield what is dangerous about objects; a changed object whose effect is not known counts as a new one."""
    before = {(danger, each.digest) for each in old.objects for danger in each.dangers}
    for each in new.objects:
        yield from (danger for danger in each.dangers if (danger, each.digest) not in before)


def _new_owners(old: Permissions, new: Permissions) -> Iterator[Danger]:
    """Yield API groups and service accounts that count as the operator's from now on, but may be those of others."""
    for group in sorted({name.partition(".")[2] for name in new.own_definitions} - old.own_groups):
        yield Danger(DangerKind.APIS, f"define resources of API group {group}", PermissionScope.CLUSTER, BUNDLE_SUBJECT)
    known, defined = _accounts(old) | {"default"}, _accounts(new, of_pods=False)
    for each in new.objects:
        # an account that the bundle does not define is a danger of the object
        if each.account in defined - known:
            may = f"run pods as service account {each.account} ({each.kind} {each.name})"
            yield Danger(DangerKind.TOKENS, may, PermissionScope.OWN, BUNDLE_SUBJECT)


def _accounts(permissions: Permissions, *, of_pods: bool = True) -> set[str]:
    """Return the service accounts that a bundle defines, and those of its pods."""
    defined = {each.subject for each in permissions.grants if each.source in ("permissions", "clusterPermissions")}
    defined |= {each.name for each in permissions.objects if each.kind == "ServiceAccount"}
    return defined | ({each.account for each in permissions.objects if each.account} if of_pods else set())


def _object_dangers(permissions: Permissions) -> Iterator[Danger]:
    return (danger for each in permissions.objects for danger in each.dangers)


def _widest(permissions: Permissions) -> tuple[Grant, ...]:
    """Return the grants of an operator that watches all namespaces."""
    watched, cluster = PermissionScope.WATCHED, PermissionScope.CLUSTER
    return tuple(replace(grant, scope=cluster) if grant.scope is watched else grant for grant in permissions.grants)


def _limited(old: Permissions, new: Permissions) -> tuple[Grant, ...]:
    """Return the grants of an operator that does not watch all namespaces.

    If only the new version can watch others than its own, the old one was limited to that.
    """
    if not _watches_others(new) or _watches_others(old):
        return old.grants
    watched, own = PermissionScope.WATCHED, PermissionScope.OWN
    return tuple(replace(grant, scope=own) if grant.scope is watched else grant for grant in old.grants)


def _watches_others(permissions: Permissions) -> bool:
    return not {"SingleNamespace", "MultiNamespace"}.isdisjoint(permissions.install_modes)


def _gained(old: Permissions, new: Permissions) -> Iterator[Grant]:
    """Yield what is permitted now and was not before, in either way to install the operator."""
    found: set[tuple[str, PermissionScope, PolicyRule | str]] = set()
    for watches_all in _ways(new):
        before = _Before(_widest(old) if _is_wide(old, watches_all) else _limited(old, new))
        for grant in _widest(new) if watches_all else new.grants:
            gained: list[PolicyRule | str] = [*before.uncovered(grant)]
            if grant.unknown_role and not before.has_unknown_role(grant):
                gained.append(grant.unknown_role)
            scopes = _at_least(grant.scope)
            added = [each for each in gained if found.isdisjoint((grant.subject, scope, each) for scope in scopes)]
            found |= {(grant.subject, grant.scope, each) for each in added}
            if added:
                rules = tuple(each for each in added if isinstance(each, PolicyRule))
                unknown_role = grant.unknown_role if grant.unknown_role in added else ""
                yield replace(grant, rules=rules, unknown_role=unknown_role)


def _ways(permissions: Permissions) -> Iterator[bool]:
    """Yield True if the operator can watch all namespaces, and False if it can be limited to some."""
    if permissions.watches_all:
        yield True
    if _can_be_limited(permissions):
        yield False


def _is_wide(old: Permissions, watches_all: bool) -> bool:
    """Whether an old version watched all namespaces where the new one does, or does not."""
    return old.watches_all if watches_all else not _can_be_limited(old)


def _can_be_limited(permissions: Permissions) -> bool:
    return not permissions.watches_all or bool(set(permissions.install_modes) - {ALL_NAMESPACES})


def _at_least(scope: PermissionScope) -> tuple[PermissionScope, ...]:
    """Return the scopes that contain a scope."""
    return tuple(dict.fromkeys((PermissionScope.CLUSTER, scope)))


class _Before:
    """The grants of the old version, by subject and scope."""

    def __init__(self, grants: Sequence[Grant]) -> None:
        self._rules: dict[tuple[str, PermissionScope], list[PolicyRule]] = defaultdict(list)
        self._unknown_roles: set[tuple[str, PermissionScope, str]] = set()
        for grant in grants:
            for owner in _owners(grant):
                self._rules[owner, grant.scope] += grant.rules
                self._unknown_roles.add((owner, grant.scope, grant.unknown_role))
        self._owned = cache(lambda owner, scope: OwnedRules(self._rules.get((owner, scope), ())))

    def uncovered(self, grant: Grant) -> tuple[PolicyRule, ...]:
        """Return what a grant permits that its subject was not permitted before, wherever the grant applies."""
        rules = grant.rules
        for owner, scope in _places(grant):
            rules = self._owned(owner, scope).uncovered(rules)
        return rules

    def has_unknown_role(self, grant: Grant) -> bool:
        """Whether the subject of a grant had its unknown role before, wherever the grant applies."""
        return any((owner, scope, grant.unknown_role) in self._unknown_roles for owner, scope in _places(grant))


def _places(grant: Grant) -> Iterator[tuple[str, PermissionScope]]:
    """Yield the owners and scopes whose permissions make a grant no gain; others gain what only the operator had."""
    return product((grant.subject,) if grant.is_other else _owners(grant), _at_least(grant.scope))


def _owners(grant: Grant) -> tuple[str, ...]:
    """Return the subject of a grant, and a name for all service accounts that are certainly the operator's."""
    return (grant.subject, _OPERATOR) if grant.is_operator and "/" not in grant.subject else (grant.subject,)
