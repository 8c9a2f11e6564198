"""All rules, by the validators that run them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.extensions import extensions
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
    "rules.labels",
    "rules.cross_bundle",
)
"""The modules of rules, in the order in which their findings are told."""

_INCLUDED: Mapping[str, tuple[str, ...]] = {
    "operatorhubv2": ("alpha-deprecated-apis",),
    "operatorhub": ("operatorhubv2", "capabilities", "categories"),
}
"""The validators that run all rules of others too, each after those that it runs."""


@cache
def validators() -> Mapping[str, tuple[Rule, ...]]:
    """The rules of each validator, ours first, then those of other distributions; loads the modules that hold them."""
    found: dict[str, list[Rule]] = {}
    for module in _modules():
        for one in vars(module).values():
            if isinstance(one, Rule):
                found.setdefault(one.validator, []).append(one)
    for name, parts in _INCLUDED.items():
        for part in parts:
            found.setdefault(name, []).extend(replace(one, validator=name) for one in found.get(part, ()))
    for name, more in composed_rules(found).items():
        found.setdefault(name, []).extend(more)
    return {name: tuple(rules) for name, rules in found.items()}


def rules() -> Mapping[str, Rule]:
    """All rules by their ids, those of ours in the dialect that is ours."""
    found: dict[str, Rule] = {}
    for group in validators().values():
        for one in group:
            if one.id not in found or Compat.OPMKIT not in found[one.id].compat:
                found[one.id] = one
    return found


def _modules() -> Iterator[ModuleType]:
    for name in _MODULES:
        yield import_module(f"{__package__}.{name}")
    for entry in extensions():
        yield entry.load()
