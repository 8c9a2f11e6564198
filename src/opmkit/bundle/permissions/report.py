"""The permissions of a bundle, and their difference between two versions, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from opmkit.bundle.permissions.danger import Danger, find_dangers, find_interceptions
from opmkit.bundle.permissions.grant import ALL_NAMESPACES, Grant, Permissions, PermissionScope
from opmkit.bundle.permissions.rule import PolicyRule, uncovered
from opmkit.core.json_types import JsonResult, to_json_types

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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
    """Return the difference between the permissions of two versions.

    Raises:
        InvalidBundle: The permissions are too many.
    """
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
    grants = _widest(permissions) if permissions.watches_all else permissions.grants
    return (
        *find_dangers(grants, permissions.own_groups),
        *find_interceptions(permissions.interceptions, permissions.own_groups),
    )


def _gained_dangers(gained: Sequence[Grant], old: Permissions, new: Permissions) -> tuple[Danger, ...]:
    known = set(find_interceptions(old.interceptions, old.own_groups))
    webhooks = find_interceptions(new.interceptions, new.own_groups)
    return (*find_dangers(gained, new.own_groups), *(each for each in webhooks if each not in known))


def _widest(permissions: Permissions) -> tuple[Grant, ...]:
    """Return the grants of an operator that watches all namespaces."""
    watched, cluster = PermissionScope.WATCHED, PermissionScope.CLUSTER
    return tuple(replace(grant, scope=cluster) if grant.scope is watched else grant for grant in permissions.grants)


def _gained(old: Permissions, new: Permissions) -> Iterator[Grant]:
    """Yield what is permitted now and was not before, in either way to install the operator."""
    found: set[tuple[str, PolicyRule]] = set()
    for watches_all in _ways(new):
        before, after = ((_widest(each) if watches_all else each.grants) for each in (old, new))
        for grant in after:
            rules = uncovered(grant.rules, _covering(grant, before))
            rules = tuple(rule for rule in rules if (grant.subject, rule) not in found)
            found |= {(grant.subject, rule) for rule in rules}
            is_new_role = grant.unknown_role and not any(_is_same_role(grant, each) for each in before)
            if rules or is_new_role:
                yield replace(grant, rules=rules)


def _ways(permissions: Permissions) -> Iterator[bool]:
    """Yield True if the operator can watch all namespaces, and False if it can be limited to some."""
    if permissions.watches_all:
        yield True
    if not permissions.watches_all or set(permissions.install_modes) - {ALL_NAMESPACES}:
        yield False


def _covering(grant: Grant, before: Sequence[Grant]) -> list[PolicyRule]:
    """Return the rules that the subject of a grant had before, wherever the grant applies."""
    return [rule for each in before if _is_at_least(each, grant) for rule in each.rules]


def _is_at_least(old: Grant, new: Grant) -> bool:
    """Whether an old grant is for the same subject and applies wherever a new one does."""
    same = old.is_operator and new.is_operator if new.is_operator else old.subject == new.subject
    return same and (old.scope is PermissionScope.CLUSTER or old.scope is new.scope)


def _is_same_role(new: Grant, old: Grant) -> bool:
    return _is_at_least(old, new) and old.unknown_role == new.unknown_role
