"""All rules, by validator and by id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opmkit.bundle.validation.cache_key import extensions
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.opm_content import COMPOSED, composed_rules
from opmkit.bundle.validation.rule import Rule

if TYPE_CHECKING:
    from types import ModuleType


_MODULES: Mapping[str, tuple[str, ...]] = {
    "load": ("load",),
    "format": ("format",),
    "dependencies": ("format",),
    "content": ("sdk-content", "opm-content"),
    "package_manifest": ("packagemanifest",),
    "csv": ("csv",),
    "bundle": ("bundle",),
    "crd": ("crd",),
    "crd_schema": ("crd",),
    "crd_upgrade": ("crd-upgrade",),
    "objects": ("object", "operatorgroup"),
    "operator_hub": ("operatorhub", "operatorhubv2", "capabilities", "categories"),
    "deprecated_apis": ("alpha-deprecated-apis",),
    "community": ("community",),
    "good_practices": ("good-practices",),
    "multiarch": ("multiarch",),
    "opmkit_csv": ("opmkit",),
    "opmkit_files": ("opmkit",),
    "opmkit_install": ("opmkit",),
    "opmkit_webhooks": ("opmkit",),
    "opmkit_apis": ("opmkit",),
    "openshift": ("openshift",),
    "pipeline": ("pipeline", "community-pipeline"),
    "olm_v1": ("olm-v1",),
    "preflight": ("preflight",),
    "labels": ("labels",),
    "operator_config": ("operator",),
    "operator_graph": ("operator",),
    "cross_bundle": ("across",),
    "external": ("external",),
}
"""Validators by the module with their rules, in the order of their findings."""

_INCLUDED: Mapping[str, tuple[str, ...]] = {
    "operatorhubv2": ("alpha-deprecated-apis",),
    "operatorhub": ("operatorhubv2", "capabilities", "categories"),
}
"""Validators that also run the rules of other validators."""


@cache
def validators() -> Mapping[str, tuple[Rule, ...]]:
    """Return the rules of each validator; rules of other distributions come last.

    The modules with the rules of a validator are imported when it is looked up, those of other distributions at once.
    """
    return _Validators([entry.load() for entry in extensions()])


def rules() -> Mapping[str, Rule]:
    """Return all rules by id. If several have the same id, one that runs in the mode OPMKIT takes precedence."""
    by_id: dict[str, Rule] = {}
    for group in validators().values():
        for rule in group:
            if rule.id not in by_id or Compat.OPMKIT not in by_id[rule.id].compat:
                by_id[rule.id] = rule
    return by_id


class _Validators(Mapping[str, tuple[Rule, ...]]):
    """The rules of each validator."""

    def __init__(self, extensions: list[ModuleType]) -> None:
        own = (name for names in _MODULES.values() for name in names)
        added = (rule.validator for module in extensions for rule in _rules_in(module))
        self._names = dict.fromkeys([*own, *COMPOSED, *added])
        self._extensions = extensions
        self._rules: dict[str, tuple[Rule, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Rule, ...]:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._rules:
            self._rules[name] = tuple(self._collect(name))
        return self._rules[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _collect(self, name: str) -> Iterator[Rule]:
        own = [module for module, names in _MODULES.items() if name in names]
        for module in [*(import_module(f"{__package__}.rules.{module}") for module in own), *self._extensions]:
            yield from (rule for rule in _rules_in(module) if rule.validator == name)
        for other in _INCLUDED.get(name, ()):
            yield from (replace(rule, validator=name) for rule in self[other])
        yield from composed_rules(name, self)


def _rules_in(module: ModuleType) -> Iterator[Rule]:
    return (value for value in vars(module).values() if isinstance(value, Rule))
