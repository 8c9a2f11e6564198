"""Rules across bundles."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec import structs

from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.cross_bundle import (
    LOCATED_FIELDS,
    ComparedBundle,
    CrossBundleRule,
    run_cross_bundle_rules,
)
from opmkit.bundle.validation.rule_registry import validators
from tests.kit.demo import demo
from tests.kit.shared import needs_shared
from tests.kit.validation import findings, recorded_bundles, view


def bundle(version: str, replaces: str = "", /, **more: Any) -> ComparedBundle:
    """Return the summary of a bundle of package demo; ``replaces`` is a version."""
    plain = ComparedBundle(f"demo:{version}", "demo", f"demo.v{version}", version, channels=("stable",))
    return structs.replace(plain, replaces=replaces and f"demo.v{replaces}", **more)


def check(*bundles: ComparedBundle) -> list[tuple[str, str, str]]:
    """Return rule, bundle and subject of the findings."""
    found = run_cross_bundle_rules(bundles, validators()["across"])
    return [(finding.rule, summary.name, finding.subject) for summary, finding in found]


CHAIN = (bundle("1.0.0"), bundle("1.1.0", "1.0.0"), bundle("1.10.0", "1.1.0"))


def test_a_chain_of_bundles_has_no_findings() -> None:
    assert check(*CHAIN) == []


def test_two_references_of_one_image_are_one_bundle() -> None:
    assert check(bundle("1.0.0", digest="d"), bundle("1.0.0", digest="d", target="demo:latest")) == []


CASES = [
    ((bundle("1.0.0"), bundle("1.0.0", package="other")), [("ACROSS-NAME-DUPLICATE", "demo.v1.0.0", "demo.v1.0.0")]),
    (
        (bundle("1.0.0"), bundle("1.0.1", "1.0.0", version="v1.0.0")),
        [("ACROSS-VERSION-DUPLICATE", "demo.v1.0.1", "v1.0.0")],
    ),
    (
        (*CHAIN, bundle("1.0.0", name="other.v1", package="other", skips=("demo.v1.1.0",), version="")),
        [("ACROSS-REPLACES-FOREIGN", "other.v1", "demo.v1.1.0")],
    ),
    (
        (*CHAIN, bundle("1.11.0", "1.10.1", skips=("demo.v1.10.0",))),
        [("ACROSS-REPLACES-MISSING", "demo.v1.11.0", "demo.v1.10.1")],
    ),
    (
        (bundle("1.0.0", "1.1.0"), bundle("1.1.0", "1.0.0"), bundle("1.2.0", "1.1.0")),
        [("ACROSS-REPLACES-CYCLE", "demo.v1.0.0", "demo.v1.0.0")],
    ),
    (
        (
            bundle("1.0.0-1", substitutes_for="demo.v1.0.0-2"),
            bundle("1.0.0-2", "1.0.0-1", substitutes_for="demo.v1.0.0-1"),
            bundle("1.1.0", "1.0.0-2", substitutes_for="demo.v1.1.0"),
        ),
        [("ACROSS-SUBSTITUTES-CYCLE", "demo.v1.0.0-1", "demo.v1.0.0-1")],
    ),
    ((*CHAIN, bundle("1.9.0", "1.1.0")), [("ACROSS-CHANNEL-HEADS", "demo.v1.10.0", "stable")]),
    ((*CHAIN, bundle("2.0.0", "1.10.0", default_channel="beta")), [("ACROSS-DEFAULT-CHANNEL", "demo.v2.0.0", "beta")]),
    (
        (bundle("1.0.0", owned_crds=("a.b",)), bundle("2.0.0", name="o.v2", package="o", owned_crds=("a.b", "c.d"))),
        [("ACROSS-CRD-OWNERS", "o.v2", "a.b")],
    ),
]


@pytest.mark.parametrize(("bundles", "wanted"), CASES)
def test_each_rule_reports_the_bundle(bundles: tuple[ComparedBundle, ...], wanted: list[tuple[str, str, str]]) -> None:
    assert check(*bundles) == wanted
    assert check(*reversed(bundles)) == wanted


def test_every_rule_is_tested_and_documented() -> None:
    rules = validators()["across"]
    assert {rule.id for rule in rules} == {rule_id for _, wanted in CASES for rule_id, _, _ in wanted}
    assert all(isinstance(rule, CrossBundleRule) and rule.explanation and rule.bad and rule.good for rule in rules)
    assert findings(demo(), "across") == []


@pytest.mark.parametrize(
    "bundles",
    [
        (bundle("1.0.0"), bundle("2.0.0"), bundle("3.0.0")),
        (bundle("1.1.0", "1.0.9"), bundle("1.2.0", "1.1.0", skips=("demo.v1.0.9",))),
        (bundle("1.0.0", "1.0.0"),),
        (bundle("1.0.0", release="1"), bundle("1.0.0", name="demo-v1.0.0-2", release="2")),
        (bundle("1.0.0", default_channel="old"), bundle("1.1.0", "1.0.0", default_channel="stable")),
        (bundle("1.0.0", version="x"), bundle("1.1.0", "1.0.0", version="")),
    ],
    ids=["no chain", "skipped", "itself", "releases", "older default", "no versions"],
)
def test_valid_combinations_have_no_findings(bundles: tuple[ComparedBundle, ...]) -> None:
    assert check(*bundles) == []


def test_findings_have_the_file_and_the_field() -> None:
    for bundles, _ in CASES:
        located = [structs.replace(one, csv_file="csv.yaml", annotations_file="other.yaml") for one in bundles]
        for _, finding in run_cross_bundle_rules(located, validators()["across"]):
            assert finding.file == ("other.yaml" if finding.rule == "ACROSS-DEFAULT-CHANNEL" else "csv.yaml")
            assert finding.path in LOCATED_FIELDS


def test_a_message_lists_at_most_five_names() -> None:
    many = [bundle("1.0.0"), *(bundle(f"1.{minor}.0", "1.0.0") for minor in range(1, 9))]
    (pair,) = run_cross_bundle_rules(many, validators()["across"])
    assert pair[1].message == (
        "channel stable of package demo has several heads: demo.v1.8.0, demo.v1.7.0, demo.v1.6.0, demo.v1.5.0,"
        " demo.v1.4.0 and 3 more"
    )


def test_the_summary_of_a_bundle() -> None:
    assert ComparedBundle.from_bundle(demo(), digest="sha256:1") == ComparedBundle(
        target="demo",
        package="demo",
        name="demo.v1.2.3",
        version="1.2.3",
        channels=("stable",),
        default_channel="stable",
        replaces="demo.v1.2.2",
        skips=("demo.v1.2.1",),
        owned_crds=("demos.demo.example.com",),
        digest="sha256:1",
        csv_file="manifests/demo.clusterserviceversion.yaml",
        annotations_file="metadata/annotations.yaml",
        locations=(
            (4, 3, "name: demo.v1.2.3"),
            (25, 3, "version: 1.2.3"),
            (29, 3, "replaces: demo.v1.2.2"),
            (5, 3, "annotations:"),
            (52, 5, "owned:"),
            (7, 3, "operators.operatorframework.io.bundle.channel.default.v1: stable"),
        ),
    )
    assert ComparedBundle.from_bundle(view({})) is None
    without_package = {path: raw for path, raw in demo().files.items() if path.startswith("manifests/")}
    assert ComparedBundle.from_bundle(view(without_package)) is None
    summary = ComparedBundle.from_bundle(demo())
    assert summary is not None
    assert ComparedBundle(**structs.asdict(summary)) == summary


@pytest.mark.slow
@needs_shared
def test_findings_in_the_corpus() -> None:
    views = (
        dataclasses.replace(recorded.view(), compat=Compat.OPMKIT, name=recorded.path)
        for recorded in recorded_bundles(Compat.NEWEST, "bundles")
    )
    summaries = [summary for view in views if (summary := ComparedBundle.from_bundle(view))]
    found = {
        (finding.rule, summary.target) for summary, finding in run_cross_bundle_rules(summaries, validators()["across"])
    }
    assert ("ACROSS-REPLACES-CYCLE", "syn-cycle/1.0.0") in found
    assert len({rule for rule, _ in found}) >= 5
