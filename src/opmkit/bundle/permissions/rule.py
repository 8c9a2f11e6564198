"""Policy rules of RBAC, and what rules permit beyond others.

A rule permits a request as in Kubernetes (``k8s.io/component-helpers``, ``auth/rbac/validation``): a wildcard matches
everything, ``*/log`` the subresource ``log`` of all resources, and a rule without resource names matches all names.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from opmkit.core.json_types import JsonResult

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    Place: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    """API groups, names and URLs of a rule, each of one value or empty."""

ANY = "*"


@dataclass(frozen=True, slots=True)
class PolicyRule(JsonResult):
    """A rule of a role.

    Attributes:
        verbs: Verbs, such as ``get``.
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

    @property
    def size(self) -> int:
        """The number of combinations of one verb, group, resource and name, or of one verb and URL."""
        resources = len(self.groups) * len(self.resources) * max(len(self.names), 1)
        return len(self.verbs) * (resources + len(self.urls))

    def reaches(self, verbs: Collection[str], groups: Collection[str], resources: Collection[str]) -> bool:
        """Return whether the rule permits one of some verbs on one of some resources, at least for some names.

        Unlike in Kubernetes, ``*/*`` and ``pods/*`` in the rule match subresources, as their authors expect.
        ``resources`` can contain ``*`` for any resource, and ``NAME/*`` for any subresource.
        """
        return (
            not {ANY, *verbs}.isdisjoint(self.verbs)
            and not {ANY, *groups}.isdisjoint(self.groups)
            and any(_matches(pattern, resource) for pattern in self.resources for resource in resources)
        )

    def foreign_resources(self, own: Collection[str]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Yield API groups with the same resources that are not own ones, and these resources.

        Args:
            own: Names of CustomResourceDefinitions, ``RESOURCE.GROUP``.
        """
        groups: dict[tuple[str, ...], list[str]] = {}
        for group in self.groups:
            foreign = tuple(each for each in self.resources if f"{each.partition('/')[0]}.{group}" not in own)
            if foreign:
                groups.setdefault(foreign, []).append(group)
        for resources, found in groups.items():
            yield tuple(found), resources


def _matches(pattern: str, resource: str) -> bool:
    """Return whether a resource of a rule matches another one, see `PolicyRule.reaches`."""
    name, slash, subresource = resource.partition("/")
    if resource == ANY or (subresource == ANY and pattern.startswith(f"{name}/")):
        return True
    return pattern in ({ANY, resource, f"*/{subresource}", f"{name}/*", "*/*"} if slash else {ANY, resource})


class OwnedRules:
    """Rules of a subject, in which the time to look up a request does not depend on their number."""

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        """Index the rules."""
        self._resources: set[tuple[str, str, str, str | None]] = set()
        self._urls: dict[str, _UrlPatterns] = {}
        for rule in dict.fromkeys(rules):
            self._resources.update(product(rule.verbs, rule.groups, rule.resources, rule.names or (None,)))
            for verb in rule.verbs if rule.urls else ():
                self._urls.setdefault(verb, _UrlPatterns()).add(rule.urls)

    def uncovered(self, rules: Iterable[PolicyRule]) -> tuple[PolicyRule, ...]:
        """Return what other rules permit beyond these, in as few rules as their verbs allow."""
        left: dict[Place, dict[str, dict[str, None]]] = {}
        for rule in dict.fromkeys(rules):
            for verb, group, resource, name in product(rule.verbs, rule.groups, rule.resources, rule.names or (None,)):
                if not self._covers(verb, group, resource, name):
                    place = ((group,), () if name is None else (name,), ())
                    left.setdefault(place, {}).setdefault(resource, {})[verb] = None
            for verb, url in product(rule.verbs, rule.urls):
                if not self._covers_url(verb, url):
                    left.setdefault(((), (), (url,)), {}).setdefault("", {})[verb] = None
        return tuple(_joined(left))

    def _covers(self, verb: str, group: str, resource: str, name: str | None) -> bool:
        _, slash, subresource = resource.partition("/")
        resources = {resource, ANY, f"*/{subresource}"} if slash else {resource, ANY}
        candidates = product({verb, ANY}, {group, ANY}, resources, {name, None})
        return any(candidate in self._resources for candidate in candidates)

    def _covers_url(self, verb: str, url: str) -> bool:
        return any(each in self._urls and self._urls[each].match(url) for each in (verb, ANY))


class _UrlPatterns:
    """Paths, and prefixes of paths that end with ``*``."""

    def __init__(self) -> None:
        self._exact: set[str] = set()
        self._prefixes: dict[int, set[str]] = {}

    def add(self, urls: Iterable[str]) -> None:
        for url in urls:
            self._exact.add(url)
            if url.endswith(ANY):
                prefix = url.rstrip(ANY)
                self._prefixes.setdefault(len(prefix), set()).add(prefix)

    def match(self, url: str) -> bool:
        return url in self._exact or any(url[:length] in found for length, found in self._prefixes.items())


def uncovered(rules: Iterable[PolicyRule], owned: Iterable[PolicyRule]) -> tuple[PolicyRule, ...]:
    """Return what rules permit beyond owned ones, in as few rules as their verbs allow."""
    return OwnedRules(owned).uncovered(rules)


def _joined(left: Mapping[Place, Mapping[str, Mapping[str, None]]]) -> Iterator[PolicyRule]:
    """Yield rules for verbs by resource; resources with the same verbs share a rule."""
    for (groups, names, urls), verbs_by_resource in left.items():
        resources_by_verbs: dict[tuple[str, ...], list[str]] = {}
        for resource, verbs in verbs_by_resource.items():
            resources_by_verbs.setdefault(tuple(sorted(verbs)), []).append(resource)
        for same, resources in resources_by_verbs.items():
            yield PolicyRule(same, groups, () if urls else tuple(sorted(resources)), names, urls)
