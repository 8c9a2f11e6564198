"""Policy rules of RBAC, and which rules cover others.

A rule covers another as in Kubernetes (k8s.io/component-helpers, auth/rbac/validation), which decides so whether a user
may grant a permission: a wildcard covers everything, ``*/log`` the subresource ``log`` of all resources, and a rule
without resource names those with names.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidBundle
from opmkit.core.json_types import JsonResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ANY = "*"
MAX_SINGLE_RULES = 100_000
"""Maximum number of combinations of verbs, groups, resources and names in the rules of a bundle that are compared."""


@dataclass(frozen=True, slots=True)
class PolicyRule(JsonResult):
    """A rule of a role.

    Attributes:
        verbs: What may be done.
        groups: API groups, "" for that of pods and secrets.
        resources: Resources, such as ``pods`` or ``pods/log``.
        names: Names of objects; none for all.
        urls: Paths of the API server that are not resources, such as ``/metrics``.
    """

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def from_decoded(cls, value: Mapping[str, Sequence[str]]) -> PolicyRule:
        """Return the rule of a decoded ``PolicyRule``, with sorted values."""
        keys = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(tuple(sorted(set(value.get(key) or ()))) for key in keys))

    def covers(self, other: PolicyRule) -> bool:
        """Whether this rule alone permits everything that another one does."""
        return (
            _contains(self.verbs, other.verbs)
            and _contains(self.groups, other.groups)
            and all(self._covers_resource(resource) for resource in other.resources)
            and all(self._covers_url(url) for url in other.urls)
            and (not self.names or (bool(other.names) and set(other.names) <= set(self.names)))
        )

    def _covers_resource(self, resource: str) -> bool:
        if ANY in self.resources or resource in self.resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self.resources

    def _covers_url(self, url: str) -> bool:
        return any(each == url or (each.endswith(ANY) and url.startswith(each.rstrip(ANY))) for each in self.urls)

    def singles(self) -> Iterator[PolicyRule]:
        """Yield the rules with one verb, group, resource and name that together equal this rule."""
        for group, resource, verb in product(self.groups, self.resources, self.verbs):
            for name in self.names or (None,):
                yield PolicyRule((verb,), (group,), (resource,), () if name is None else (name,))
        for url, verb in product(self.urls, self.verbs):
            yield PolicyRule((verb,), urls=(url,))

    @property
    def size(self) -> int:
        """The number of `singles`."""
        resources = len(self.groups) * len(self.resources) * max(len(self.names), 1)
        return len(self.verbs) * (resources + len(self.urls))


def _contains(values: Sequence[str], others: Sequence[str]) -> bool:
    return ANY in values or set(others) <= set(values)


def uncovered(rules: Iterable[PolicyRule], owned: Sequence[PolicyRule]) -> tuple[PolicyRule, ...]:
    """Return what rules permit beyond owned ones, in as few rules as their verbs allow.

    Raises:
        InvalidBundle: The rules have too many combinations.
    """
    left: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], dict[str, dict[str, None]]] = {}
    remaining = MAX_SINGLE_RULES
    for rule in dict.fromkeys(rules):
        if any(each.covers(rule) for each in owned):
            continue
        remaining -= rule.size
        if remaining < 0:
            message = f"the permissions have more than {MAX_SINGLE_RULES:,} combinations of verbs, groups and resources"
            raise InvalidBundle(message, hint="use wildcards, or fewer rules")
        for single in rule.singles():
            if not any(each.covers(single) for each in owned):
                key = (single.groups, single.names, single.urls)
                resource = single.resources[0] if single.resources else ""
                left.setdefault(key, {}).setdefault(resource, {})[single.verbs[0]] = None
    return tuple(_joined(left))


def _joined(
    left: Mapping[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], Mapping[str, Mapping[str, None]]],
) -> Iterator[PolicyRule]:
    """Yield rules for verbs by resource; resources with the same verbs share a rule."""
    for (groups, names, urls), verbs_by_resource in left.items():
        resources_by_verbs: dict[tuple[str, ...], list[str]] = {}
        for resource, verbs in verbs_by_resource.items():
            resources_by_verbs.setdefault(tuple(sorted(verbs)), []).append(resource)
        for same, resources in resources_by_verbs.items():
            yield PolicyRule(same, groups, () if urls else tuple(sorted(resources)), names, urls)
