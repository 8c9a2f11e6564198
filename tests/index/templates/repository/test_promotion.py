"""Promotion of operators to another version of OpenShift."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.errors import CatalogError
from opmkit.index.templates.repository.promotion import (
    PromotionRequest,
    PromotionStatus,
    PromotionStrategy,
    promote_operators,
)
from tests.kit.plans import chain, encode, package

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.templates.repository.promotion import PromotedOperator

CI = """---
# who reviews
reviewers: [alice]
fbc:
  enabled: true
  catalog_mapping:
    - template_name: v4.yaml
      catalog_names: ["v4.19", "v4.20"]  # older ones are frozen
      type: olm.template.basic
"""
REQUEST = PromotionRequest.parse("v4.20", "4.21")
METADATA: dict[str, Any] = {"type": "olm.csv.metadata", "value": {}}


def add_operator(root: Path, name: str, ci: str = CI, last: str = "") -> Path:
    """Write an operator with a catalog for OpenShift 4.20, whose head works up to the version ``last``."""
    properties = [METADATA, *([{"type": "olm.maxOpenShiftVersion", "value": last}] if last else [])]
    directory = root / "catalogs/v4.20" / name
    directory.mkdir(parents=True)
    head = f"{name}.v1.1.0"
    requires: dict[str, list[dict[str, Any]]] = {f"{name}.v1.0.0": [METADATA], head: properties}
    documents = package(name, {"stable": chain(f"{name}.v1.0.0", head)}, requires)
    (directory / "catalog.json").write_bytes(encode(documents))
    config = root / "operators" / name / "ci.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(ci)
    return directory


def promote(root: Path, request: PromotionRequest = REQUEST) -> dict[str, PromotedOperator]:
    return {each.name: each for each in promote_operators(root, request).operators}


def test_catalog_and_configuration(tmp_path: Path) -> None:
    source = add_operator(tmp_path, "reef")
    (source / "more").mkdir()
    (source / "more/lifecycle.yaml").write_text("schema: custom\n")
    promoted = promote(tmp_path)["reef"]
    assert promoted.status is PromotionStatus.PROMOTED
    assert promoted.strategy is PromotionStrategy.REVIEW_NEEDED
    target = tmp_path / "catalogs/v4.21/reef"
    assert promoted.files == (
        "catalogs/v4.21/reef/catalog.json",
        "catalogs/v4.21/reef/more/lifecycle.yaml",
        "operators/reef/ci.yaml",
    )
    assert (target / "catalog.json").read_bytes() == (source / "catalog.json").read_bytes()
    edited = CI.replace('"v4.20"]', '"v4.20", "v4.21"]')
    assert (tmp_path / "operators/reef/ci.yaml").read_text() == edited
    assert promoted.plan
    assert [step.platform for step in promoted.plan.steps] == ["4.20", "4.21"]
    again = promote(tmp_path)["reef"]
    assert (again.status, again.files) == (PromotionStatus.UNCHANGED, ())


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    add_operator(tmp_path, "reef")
    promoted = promote(tmp_path, replace(REQUEST, dry_run=True))["reef"]
    assert (promoted.status, len(promoted.files)) == (PromotionStatus.PROMOTED, 2)
    assert not (tmp_path / "catalogs/v4.21").exists()
    assert (tmp_path / "operators/reef/ci.yaml").read_text() == CI


def test_strategies(tmp_path: Path) -> None:
    for name, strategy in (("a", "always"), ("b", "never"), ("c", "review-needed"), ("d", "sometimes")):
        add_operator(tmp_path, name, f"{CI}  version_promotion_strategy: {strategy}\n")
    only_always = replace(REQUEST, strategies=(PromotionStrategy.ALWAYS,))
    excluded, done = PromotionStatus.EXCLUDED, PromotionStatus.PROMOTED
    assert [each.status for each in promote(tmp_path, only_always).values()] == [done, excluded, excluded, excluded]
    promoted = promote(tmp_path)
    assert [each.status for each in promoted.values()] == [PromotionStatus.UNCHANGED, excluded, done, excluded]
    assert promoted["d"].problems == ("unknown version_promotion_strategy 'sometimes'",)


def test_problems_of_clusters(tmp_path: Path) -> None:
    add_operator(tmp_path, "reef", last="4.20")
    promoted = promote(tmp_path)["reef"]
    assert promoted.status is PromotionStatus.PROMOTED
    first, second = promoted.problems
    assert "works up to OpenShift 4.20, so that the cluster is not updated to 4.21" in first
    assert "reef.v1.1.0: the bundle does not work on OpenShift 4.21" in second


def test_the_existing_catalog_remains(tmp_path: Path) -> None:
    source = add_operator(tmp_path, "reef")
    target = tmp_path / "catalogs/v4.21/reef"
    target.mkdir(parents=True)
    content = (source / "catalog.json").read_bytes() + b"\n\n"
    (target / "catalog.json").write_bytes(content)
    assert promote(tmp_path)["reef"].files == ("operators/reef/ci.yaml",)
    assert (target / "catalog.json").read_bytes() == content


def test_an_unmapped_catalog_is_copied(tmp_path: Path) -> None:
    add_operator(tmp_path, "reef", "reviewers: []\n")
    promoted = promote(tmp_path)["reef"]
    assert promoted.files == ("catalogs/v4.21/reef/catalog.json",)
    assert promoted.problems[0].endswith("no template has the catalog v4.20: add v4.21 to its catalog_names")


@pytest.mark.parametrize(
    ("ci", "problem"),
    [
        ("- a\n", "not a single mapping"),
        ("", "not a single mapping"),
        ("a: 1\n---\nb: 2\n", "not a single mapping"),
        ("a: [\n", "ci.yaml:"),
        ("fbc: &a {catalog_mapping: [{catalog_names: &n [v4.20]}, {x: *n}]}\n", "would change other values"),
    ],
)
def test_configurations_that_cannot_be_edited(tmp_path: Path, ci: str, problem: str) -> None:
    add_operator(tmp_path, "good")
    add_operator(tmp_path, "reef", ci)
    promoted = promote(tmp_path)
    assert promoted["reef"].status is PromotionStatus.FAILED
    assert problem in promoted["reef"].problems[0]
    assert not (tmp_path / "catalogs/v4.21/reef").exists()
    assert promoted["good"].status is PromotionStatus.PROMOTED


def test_catalogs_that_cannot_be_promoted(tmp_path: Path) -> None:
    links, invalid, empty = (add_operator(tmp_path, name) for name in ("links", "invalid", "empty"))
    add_operator(tmp_path, "absent")
    (links / "passwd").symlink_to("/etc/passwd")
    (invalid / "catalog.json").write_text("schema: olm.package\nname: x\ndefaultChannel: none\n")
    (empty / "catalog.json").unlink()
    (tmp_path / "operators/absent/ci.yaml").unlink()
    promoted = promote(tmp_path)
    assert {each.status for each in promoted.values()} == {PromotionStatus.FAILED}
    assert "refusing to copy a link" in promoted["links"].problems[0]
    assert "the directory has no files" in promoted["empty"].problems[0]
    assert "no such file" in promoted["absent"].problems[0]
    assert not (tmp_path / "catalogs/v4.21").exists()


def test_one_operator(tmp_path: Path) -> None:
    for name in ("reef", "lagoon"):
        add_operator(tmp_path, name)
    assert list(promote(tmp_path / "operators/reef")) == ["reef"]
    assert list(promote(tmp_path, replace(REQUEST, operators=("lagoon",)))) == ["lagoon"]
    with pytest.raises(CatalogError, match="operator 'reff' has no catalog"):
        promote(tmp_path, replace(REQUEST, operators=("reff",)))
    with pytest.raises(CatalogError, match=r"v4\.20: no such directory"):
        promote(tmp_path / "operators")


@pytest.mark.parametrize(
    ("versions", "message"),
    [(("x", "4.21"), "invalid version of OpenShift"), (("4.21", "4.21"), "OpenShift 4.21 is not later than 4.21")],
)
def test_invalid_versions(versions: tuple[str, str], message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        PromotionRequest.parse(*versions)
