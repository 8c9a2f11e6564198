"""The table of rules is complete."""

from __future__ import annotations

import re
from pathlib import Path

import opmkit.index.fbc
from opmkit.bundle.validation.rule_registry import rules
from opmkit.index.fbc.check.policy import CATALOG_RULES

SOURCES = Path(opmkit.index.fbc.__file__).parent


def test_rules_of_findings_are_those_of_the_table() -> None:
    used = {
        rule
        for path in (*SOURCES.glob("*.py"), *SOURCES.glob("check/*.py"))
        for rule in re.findall(r'rule="([^"]+)"', path.read_text())
    }
    assert used == set(CATALOG_RULES)


def test_rules_of_bundles_and_catalogs_have_different_ids() -> None:
    assert not set(rules()) & set(CATALOG_RULES)
