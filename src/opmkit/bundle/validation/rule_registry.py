"""All rules, by validator and by id."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opmkit.bundle.validation.cache_key import extensions
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.opm_content import composed_rules
from opmkit.bundle.validation.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
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
    "rules.crd_schema",
    "rules.crd_upgrade",
    "rules.objects",
    "rules.operator_hub",
    "rules.deprecated_apis",
    "rules.community",
    "rules.good_practices",
    "rules.multiarch",
    "rules.opmkit_csv",
    "rules.opmkit_files",
    "rules.opmkit_install",
    "rules.opmkit_webhooks",
    "rules.opmkit_apis",
    "rules.openshift",
    "rules.pipeline",
    "rules.olm_v1",
    "rules.preflight",
    "rules.labels",
    "rules.operator_config",
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
    """Import all modules with rules and return the rules of each validator; rules of other distributions come last."""
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
