"""The table of rules is complete."""

from __future__ import annotations

import re
from pathlib import Path

import opmkit.index.fbc
import opmkit.index.image.konflux
from opmkit.bundle.validation.rule_registry import rules
from opmkit.index.fbc.check.rules import CATALOG_RULES

SOURCES = Path(opmkit.index.fbc.__file__).parent
KONFLUX = Path(opmkit.index.image.konflux.__file__)


def test_rules_of_findings_are_those_of_the_table() -> None:
    used = {
        rule
        for path in (*SOURCES.glob("*.py"), *SOURCES.glob("check/*.py"), KONFLUX)
        for rule in re.findall(r'\brule ?= ?"([^"]+)"', path.read_text())
    }
    assert used == set(CATALOG_RULES)


def test_rules_of_bundles_and_catalogs_have_different_ids() -> None:
    assert not set(rules()) & set(CATALOG_RULES)
