"""Rules that redirect the pulls of images to a mirror, as registries.conf and OpenShift's mirror sets contain them."""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class MirrorScope(StrEnum):
    """Size of the part of a registry that one rule redirects."""

    NAMESPACE = "namespace"
    REPOSITORY = "repository"


class MirrorRule(Struct, frozen=True, order=True):
    """A repository or namespace, its mirror, and whether it applies to references with a digest or with a tag only.

    Attributes:
        source: REGISTRY/PATH that references begin with.
        mirror: REGISTRY[/PATH] that replaces it.
        digests: Whether the rule applies to references with a digest.
        tags: Whether the rule applies to references without one.
    """

    source: str
    mirror: str
    digests: bool = True
    tags: bool = False


def mirror_rules(
    repositories: Iterable[MirrorRule], scope: MirrorScope = MirrorScope.NAMESPACE
) -> tuple[MirrorRule, ...]:
    """Combine rules for single repositories into as few as possible, in alphabetical order.

    With NAMESPACE scope a rule covers a namespace, but never a whole registry, if all of its repositories have the
    same name in one namespace of the mirror. It redirects other repositories of the namespace as well, but each of the
    given ones to its own mirror, since the most specific rule applies.
    """
    merged = _merge(repositories)
    if scope is MirrorScope.REPOSITORY:
        return tuple(sorted(merged))
    names = {rule.source for rule in merged}
    groups: dict[str, list[MirrorRule]] = defaultdict(list)
    for rule in merged:
        groups[rule.source.rpartition("/")[0]].append(rule)
    combined = (rules if name in names else _combine(name, rules) for name, rules in groups.items())
    return tuple(sorted(chain.from_iterable(combined)))


def _combine(namespace: str, rules: Sequence[MirrorRule]) -> list[MirrorRule]:
    """Return one rule for the namespace if it covers all rules, else the rules."""
    targets = {rule.mirror.rpartition("/")[0] for rule in rules}
    same_names = all(rule.source.rpartition("/")[2] == rule.mirror.rpartition("/")[2] for rule in rules)
    if "/" not in namespace or len(targets) != 1 or not same_names or "" in targets:
        return list(rules)
    digests, tags = any(rule.digests for rule in rules), any(rule.tags for rule in rules)
    return [MirrorRule(namespace, targets.pop(), digests, tags)]


def _merge(rules: Iterable[MirrorRule]) -> list[MirrorRule]:
    """Merge rules with the same source and mirror."""
    merged: dict[tuple[str, str], MirrorRule] = {}
    for rule in rules:
        key = (rule.source, rule.mirror)
        other = merged.get(key, rule)
        merged[key] = MirrorRule(*key, rule.digests or other.digests, rule.tags or other.tags)
    return list(merged.values())


def format_registries_conf(
    rules: Sequence[MirrorRule], *, insecure: bool = False, block_sources: bool = False
) -> bytes:
    """Return the rules as a file for registries.conf.d of podman, skopeo, buildah and CRI-O.

    Args:
        rules: The rules.
        insecure: Whether the mirror has no TLS, or a certificate that is not trusted.
        block_sources: Whether images are never pulled from their source.
    """
    by_source: dict[str, list[MirrorRule]] = defaultdict(list)
    for rule in rules:
        by_source[rule.source].append(rule)
    tables = (_registry_table(source, group, insecure, block_sources) for source, group in by_source.items())
    return "\n".join(tables).encode()


def _registry_table(source: str, rules: Sequence[MirrorRule], insecure: bool, blocked: bool) -> str:
    lines = ["[[registry]]", f"prefix = {_quote(source)}", f"location = {_quote(source)}"]
    lines += ["blocked = true"] if blocked else []
    for rule in rules:
        lines += ["", "[[registry.mirror]]", f"location = {_quote(rule.mirror)}"]
        if rule.digests != rule.tags:
            lines.append(f"pull-from-mirror = {_quote('digest-only' if rule.digests else 'tag-only')}")
        lines += ["insecure = true"] if insecure else []
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    """Return a TOML string; names of repositories contain no characters that need an escape."""
    return f'"{text}"'


class RepositoryLocation(Struct, frozen=True):
    """A repository of a registry to send requests to.

    Attributes:
        registry: Host, with an optional port.
        repository: The repository's name in the registry.
        insecure: Whether untrusted certificates, and plain HTTP as a fallback, are accepted.
        blocked_by: The settings file that blocks the repository, or "" if none does.
    """

    registry: str
    repository: str
    insecure: bool = False
    blocked_by: str = ""

    @property
    def name(self) -> str:
        """Registry and repository, separated by a slash."""
        return f"{self.registry}/{self.repository}"
