"""The examples of the rules of catalogs: the bad ones break their rule, the good ones break none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from opmkit.bundle.validation.rule_registry import rules
from opmkit.index.fbc.check.result import validate
from opmkit.index.fbc.check.rules import CATALOG_RULES
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.load import load_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.finding import RuleDescription

CATALOG = """\
schema: olm.package
name: reef
defaultChannel: stable
---
schema: olm.channel
package: reef
name: stable
entries: [{name: reef.v1.0.0}, {name: reef.v1.1.0, replaces: reef.v1.0.0}]
---
schema: olm.bundle
package: reef
name: reef.v1.0.0
image: quay.io/me/reef:1.0.0
properties: [{type: olm.package, value: {packageName: reef, version: 1.0.0}}]
---
schema: olm.bundle
package: reef
name: reef.v1.1.0
image: quay.io/me/reef:1.1.0
properties: [{type: olm.package, value: {packageName: reef, version: 1.1.0}}]
"""
WITH_BAD = [rule for rule in CATALOG_RULES.values() if rule.bad]
WITH_GOOD = [rule for rule in CATALOG_RULES.values() if rule.good]


def catalog_with(example: str) -> str:
    """Return the valid catalog with the documents of an example instead of those with the same schema and name."""
    try:
        replaced = {(each.get("schema"), each.get("name")) for each in yaml.safe_load_all(example)}
    except (yaml.YAMLError, AttributeError):  # a document that breaks the syntax, or is not a mapping
        replaced = set()
    remaining = [
        text
        for text in CATALOG.split("---\n")
        if (fields := yaml.safe_load(text)) and (fields["schema"], fields["name"]) not in replaced
    ]
    return "---\n".join([*remaining, f"{example}\n"])


def broken_rules(text: str) -> Iterator[str]:
    result = validate(load_files([("catalog.yaml", text.encode())]), CatalogCompat.NEWEST)
    return (finding.rule for finding in result.findings)


def test_the_catalog_is_valid() -> None:
    assert list(broken_rules(CATALOG)) == []


@pytest.mark.parametrize("rule", WITH_BAD, ids=lambda rule: rule.id)
def test_bad_examples_break_their_rule(rule: RuleDescription) -> None:
    assert rule.id in broken_rules(catalog_with(rule.bad))


@pytest.mark.parametrize("rule", WITH_GOOD, ids=lambda rule: rule.id)
def test_good_examples_break_no_rule(rule: RuleDescription) -> None:
    assert list(broken_rules(catalog_with(rule.good))) == []


def test_most_rules_of_documents_have_examples() -> None:
    """The others are about files, other catalogs, images and requirements, which no document shows."""
    without = {rule.id for rule in CATALOG_RULES.values() if not rule.bad and rule.id.startswith("FBC-")}
    assert without == {"FBC-EMPTY", "FBC-FILE-SIZE", "FBC-GRAPH-BEFORE-1.58", "FBC-LIFECYCLE"}


def test_every_rule_has_a_hint_or_an_example() -> None:
    described = [*CATALOG_RULES.values(), *(rule.describe() for rule in rules().values())]
    assert [rule.id for rule in described if not rule.hint and not rule.bad] == []
    assert [rule.id for rule in CATALOG_RULES.values() if not rule.hint] == []
