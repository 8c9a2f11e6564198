"""The documentation lists the rules, validators and profiles."""

from __future__ import annotations

import json
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from opmkit.bundle.validation import rules as rules_package
from opmkit.bundle.validation.profiles import OPTIONAL, PROFILES
from opmkit.bundle.validation.rule import Rule
from opmkit.bundle.validation.rule_registry import validators

PAGE = (Path(__file__).parents[3] / "docs" / "validation.md").read_text()
LISTED = ("opmkit", "openshift", "across", "crd-upgrade", "pipeline", "community-pipeline", "operator", "external")
"""Validators of opmkit, whose rules are all listed."""


@pytest.mark.parametrize("validator", LISTED)
def test_rules_of_opmkit_are_listed(validator: str) -> None:
    assert [rule.id for rule in validators()[validator] if f"`{rule.id}`" not in PAGE] == []


def test_listed_rules_exist() -> None:
    known = {rule.id for rules in validators().values() for rule in rules}
    listed = set(re.findall(r"`((?:ACROSS|OPENSHIFT|OPERATOR|PIPELINE)-[A-Z-]+[A-Z])`", PAGE))
    assert listed - known == set()


def test_validators_and_profiles_are_listed() -> None:
    rows = set(re.findall(r"^\| `([a-z0-9-]+)` \|", PAGE, re.MULTILINE))
    assert set(PROFILES) | {validator.name for validator in OPTIONAL} <= rows
    internal = {"opm-content-optional"}  # in the row of opm-content
    assert set(validators()) - internal <= rows


def test_every_rule_of_a_module_runs_in_its_validator() -> None:
    modules = [
        import_module(f"{rules_package.__name__}.{info.name}") for info in pkgutil.iter_modules(rules_package.__path__)
    ]
    defined = {
        (rule.validator, rule.id) for module in modules for rule in vars(module).values() if isinstance(rule, Rule)
    }
    assert defined - {(name, rule.id) for name, rules in validators().items() for rule in rules} == set()


def test_a_validator_is_looked_up_without_importing_the_rules_of_others() -> None:
    code = f"""
import json, sys
from {validators.__module__} import validators
names = list(validators())
assert validators()["labels"] and "opm-content" in validators() and "unknown" not in validators()
print(json.dumps([names, [name for name in sys.modules if name.startswith({rules_package.__name__ + "."!r})]]))
"""
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    names, imported = json.loads(output)
    assert names == list(validators())
    assert imported == [f"{rules_package.__name__}.labels"]
