"""Permissions by which an operator, or anyone who compromises it, gains more than its own resources."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.bundle.permissions.dangerous_rules import DANGEROUS_RULES
from opmkit.bundle.permissions.kinds import Danger, DangerKind, PermissionScope
from opmkit.bundle.permissions.rule import ANY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from opmkit.bundle.permissions.grant import Grant, Interception
    from opmkit.bundle.permissions.rule import PolicyRule

_ORDER = {kind: number for number, kind in enumerate(DangerKind)}
_SERVER_FILES = ("/logs", "/debug")
"""Paths of the API server below which its logs and profiles are."""


def sort_dangers(dangers: Iterable[Danger]) -> tuple[Danger, ...]:
    """Return dangerous permissions once each, the most dangerous kinds and the widest scopes first."""
    scopes = list(PermissionScope)
    return tuple(sorted(dict.fromkeys(dangers), key=lambda each: (_ORDER[each.kind], scopes.index(each.scope))))


def find_dangers(grants: Iterable[Grant], own: Collection[str]) -> Iterator[Danger]:
    """Yield the dangerous permissions of grants.

    Args:
        grants: The grants.
        own: Names of the operator's CustomResourceDefinitions, on whose resources it may have all verbs.
    """
    for grant in grants:
        yield from _dangers_of(grant, own)


def find_interceptions(interceptions: Iterable[Interception], own: Collection[str]) -> Iterator[Danger]:
    """Yield the webhooks that see other resources than those of the operator."""
    for each in interceptions:
        if any(
            f"{resource.partition('/')[0]}.{group}" not in own for group in each.groups for resource in each.resources
        ):
            what = "change" if each.changes else "reject"
            operations = ", ".join(operation.lower() for operation in each.operations)
            labels = f" with {each.selector}" if each.selector else ""
            may = f"{what} {_listed(each.resources, each.groups)} of others{labels} (webhook, on {operations})"
            yield Danger(DangerKind.WEBHOOKS, may, PermissionScope.CLUSTER, each.webhook)


def _dangers_of(grant: Grant, own: Collection[str]) -> Iterator[Danger]:
    if grant.unknown_role:
        may = f"do what {grant.unknown_role} permits"
        yield Danger(DangerKind.UNKNOWN_ROLE, may, grant.scope, grant.subject)
        if grant.is_other:
            yield Danger(DangerKind.OTHERS, may, grant.scope, grant.subject)
    everywhere = grant.scope is PermissionScope.CLUSTER
    # roles in a namespace permit no URLs, and who may do everything can obtain them
    without_urls = not everywhere or any(map(_is_everything, grant.rules))
    for rule in grant.rules:
        effective = replace(rule, urls=()) if without_urls else rule
        for kind, may in _statements(effective, own, everywhere=everywhere):
            yield Danger(kind, may, grant.scope, grant.subject)
        for may in _for_others(effective, own) if grant.is_other else ():
            yield Danger(DangerKind.OTHERS, may, grant.scope, grant.subject)


def _is_everything(rule: PolicyRule) -> bool:
    return ANY in rule.verbs and ANY in rule.groups and ANY in rule.resources and not rule.names


def _statements(rule: PolicyRule, own: Collection[str], *, everywhere: bool) -> Iterator[tuple[DangerKind, str]]:
    if _is_everything(rule):
        yield DangerKind.EVERYTHING, "do everything"
        return
    names = _names(rule)
    for dangerous in DANGEROUS_RULES:
        if dangerous.matches(rule) and (everywhere or not dangerous.is_cluster_only):
            yield dangerous.kind, dangerous.phrase.format("" if names else "all ") + names
    yield from _wildcards(rule, own)


def _for_others(rule: PolicyRule, own: Collection[str]) -> Iterator[str]:
    """Yield what a rule permits beyond own resources, dangerous or not."""
    for groups, resources in rule.foreign_resources(own):
        yield f"{_verbs(rule)} {_listed(resources, groups)}{_names(rule)}"
    if rule.urls:
        yield f"{_verbs(rule)} {', '.join(rule.urls)}"


def _names(rule: PolicyRule) -> str:
    return f" named {', '.join(rule.names)}" if rule.names else ""


def _wildcards(rule: PolicyRule, own: Collection[str]) -> Iterator[tuple[DangerKind, str]]:
    """Yield wildcards for other resources than own ones, and for URLs of the API server."""
    for groups, resources in rule.foreign_resources(own):
        if ANY in rule.verbs or ANY in groups or not {ANY, "*/*"}.isdisjoint(resources):
            yield DangerKind.WILDCARD, f"{_verbs(rule)} {_listed(resources, groups)}{_names(rule)}"
    if not {ANY, "/*"}.isdisjoint(rule.urls):
        yield DangerKind.WILDCARD, f"{_verbs(rule)} all URLs of the API server"
    if any(_covers(url, path) for url in rule.urls for path in _SERVER_FILES):
        yield DangerKind.NODES, "read logs or profiles of the API server by its URLs"


def _covers(url: str, path: str) -> bool:
    """Return whether a URL of a rule is below a path, or contains it."""
    return url.startswith(path) or (url.endswith(ANY) and path.startswith(url.rstrip(ANY)))


def _verbs(rule: PolicyRule) -> str:
    return "do everything with" if ANY in rule.verbs else ", ".join(rule.verbs)


def _listed(resources: Collection[str], groups: Collection[str]) -> str:
    what = "all resources" if not {ANY, "*/*"}.isdisjoint(resources) else ", ".join(resources)
    if ANY in groups:
        return f"{what} of all API groups"
    named = [group for group in groups if group]
    return f"{what} of {', '.join(['the core group'] * ('' in groups) + named)}" if named or ANY in resources else what
