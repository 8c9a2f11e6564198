"""All rules, by validator and by id, with those of other distributions."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.opm_content import composed_rules
from opmkit.bundle.validation.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.metadata import EntryPoint
    from types import ModuleType


_MODULES: tuple[str, ...] = (
    "rules.load",
    "rules.format",
    "rules.dependencies",
    "rules.content",
    "rules.package_manifest",
    "rules.csv",
    "rules.bundle",
    "rules.crd",
    "rules.crd_conversion",
    "rules.crd_columns",
    "rules.crd_schema",
    "rules.objects",
    "rules.operator_hub",
    "rules.deprecated_apis",
    "rules.community",
    "rules.good_practices",
    "rules.multiarch",
    "rules.opmkit_csv",
    "rules.opmkit_annotations",
    "rules.opmkit_files",
    "rules.opmkit_install",
    "rules.opmkit_webhooks",
    "rules.opmkit_apis",
    "rules.openshift",
    "rules.pipeline",
    "rules.labels",
    "rules.operator_config",
    "rules.operator_versions",
    "rules.operator_graph",
    "rules.cross_bundle",
    "rules.external",
)
"""Modules with rules, in the order of their findings."""

_INCLUDED: Mapping[str, tuple[str, ...]] = {
    "operatorhubv2": ("alpha-deprecated-apis",),
    "operatorhub": ("operatorhubv2", "capabilities", "categories"),
}
"""Validators that also run the rules of other validators."""


@cache
def validators() -> Mapping[str, tuple[Rule, ...]]:
    """Import all modules with rules and return the rules of each validator, those of other distributions last."""
    by_validator: dict[str, list[Rule]] = {}
    for module in _modules():
        for value in vars(module).values():
            if isinstance(value, Rule):
                by_validator.setdefault(value.validator, []).append(value)
    for name, included in _INCLUDED.items():
        for other in included:
            rules = [replace(rule, validator=name) for rule in by_validator.get(other, ())]
            by_validator.setdefault(name, []).extend(rules)
    for name, rules in composed_rules(by_validator).items():
        by_validator.setdefault(name, []).extend(rules)
    return {name: tuple(rules) for name, rules in by_validator.items()}


def rules() -> Mapping[str, Rule]:
    """Return all rules by id. If several have the same id, one that runs in the mode OPMKIT takes precedence."""
    by_id: dict[str, Rule] = {}
    for group in validators().values():
        for rule in group:
            if rule.id not in by_id or Compat.OPMKIT not in by_id[rule.id].compat:
                by_id[rule.id] = rule
    return by_id


def _modules() -> Iterator[ModuleType]:
    for name in _MODULES:
        yield import_module(f"{__package__}.{name}")
    for entry in extensions():
        yield entry.load()


ENTRY_POINTS = "opmkit.rules"
"""Group of the entry points, each of which names a module with rules."""


def extensions() -> list[EntryPoint]:
    """Return the entry points of all installed modules with rules."""
    if not any(map(_may_have_extensions, sys.path)):
        return []
    from importlib.metadata import entry_points  # slow to import: email

    return sorted(entry_points(group=ENTRY_POINTS))


def extension_versions() -> list[str]:
    """Return names and versions of the distributions with rules, such as ``acme-rules 1.0``."""
    return sorted(f"{entry.dist.name} {entry.dist.version}" for entry in extensions() if entry.dist)


def _may_have_extensions(location: str) -> bool:
    """Return whether an entry of ``sys.path`` has a distribution with rules; archives and eggs may have one."""
    path = Path(location)
    if not path.is_dir() or (path / "EGG-INFO").exists():
        return path.exists()
    try:
        return any(ENTRY_POINTS.encode() in file.read_bytes() for file in path.glob("*-info/entry_points.txt"))
    except OSError:
        return True
