"""The documentation lists the rules, validators and profiles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opmkit.bundle.validation.profiles import OPTIONAL, PROFILES
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
