"""Rules of the validators ``openshift``, ``pipeline`` and ``community-pipeline``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opmkit.bundle.validation.openshift import VERSIONS
from opmkit.bundle.validation.rule_registry import validators
from tests.kit.broken import broken_bundles
from tests.kit.demo import demo, line_of
from tests.kit.validation import findings

VALIDATORS = ("openshift", "pipeline", "community-pipeline")
RANGE = f"{VERSIONS}: v4.14"
PROPERTIES = "metadata/properties.yaml"
OLD_API = ("apiVersion: policy/v1\n", "apiVersion: policy/v1beta1\n")
OLD_KUBE = ("minKubeVersion: 1.27.0", "minKubeVersion: 1.20.0")


def openshift(versions: str, *changes: tuple[str, str], maximum: str = "") -> list[tuple[str, str]]:
    """Return rule and beginning of the line of the findings of ``openshift``."""
    more = {PROPERTIES: f"properties:\n- {{type: olm.maxOpenShiftVersion, value: {maximum}}}\n"} if maximum else {}
    bundle = demo((RANGE, f"{VERSIONS}: {versions}"), *changes, more=more)
    return [(finding.rule, line_of(bundle, finding).split(":")[0]) for finding in findings(bundle, "openshift")]


@pytest.mark.parametrize("versions", ["v4.14", "v4.14-v4.16", "=v4.14", "v4.15", "v5.0", "'4.14'"])
def test_valid_versions(versions: str) -> None:
    assert openshift(versions) == []


@pytest.mark.parametrize("versions", ["'>4.14'", "latest", "''", "v4.16-v4.14", "4.14", "[v4.14]"])
def test_invalid_versions(versions: str) -> None:
    expected = [] if versions == "[v4.14]" else [("OPENSHIFT-VERSIONS-FORMAT", VERSIONS)]
    assert openshift(versions) == expected


def test_lists_of_versions() -> None:
    assert openshift("v4.5,v4.6", OLD_KUBE) == [("OPENSHIFT-KUBE-VERSION", VERSIONS)]
    assert openshift("v4.14,v4.16") == [("OPENSHIFT-VERSIONS-LIST", VERSIONS)]


@pytest.mark.parametrize("versions", ["v4.12", "v4.13-v4.20", "=v4.13"])
def test_versions_older_than_the_minimum_of_kubernetes(versions: str) -> None:
    assert openshift(versions) == [("OPENSHIFT-KUBE-VERSION", VERSIONS)]
    assert openshift(versions, ("minKubeVersion: 1.27.0", "minKubeVersion: latest")) == []


@pytest.mark.parametrize(
    ("versions", "is_without"), [("v4.8", True), ("v4.8-v4.11", False), ("v4.8-v4.12", True), ("=v4.11", False)]
)
def test_versions_without_apis_of_the_bundle(versions: str, is_without: bool) -> None:
    expected = [("OPENSHIFT-REMOVED-API", VERSIONS)] * is_without
    assert openshift(versions, OLD_API, OLD_KUBE) == expected


@pytest.mark.parametrize("maximum", ["4.14", "'4.14.1'", "''", "latest", "'4.14-rc.1'", "{a: 1}", "null"])
def test_invalid_maximum(maximum: str) -> None:
    (finding,) = openshift("=v4.14", maximum=maximum)
    assert finding == ("OPENSHIFT-MAX-VERSION", "- {type")


def test_maximum_in_the_annotation_of_the_csv() -> None:
    skip_range = "    olm.skipRange:"
    values = """    olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.14"}]'\n"""
    assert openshift("=v4.14", (skip_range, values + skip_range)) == []
    assert openshift("v4.14", (skip_range, values + skip_range)) == [("OPENSHIFT-MAX-RANGE", VERSIONS)]
    both = openshift("=v4.14", (skip_range, values + skip_range), maximum="'4.14'")
    assert both == [("OPENSHIFT-MAX-VERSION", "- {type")]
    invalid = values.replace("[", "{")
    assert openshift("v4.14", (skip_range, invalid + skip_range)) == []


def test_maximum_and_removed_apis() -> None:
    assert openshift("=v4.11", OLD_API, OLD_KUBE, maximum="'4.11'") == []
    found = openshift("=v4.11", OLD_API, OLD_KUBE, maximum="'4.12'")
    assert found == [("OPENSHIFT-MAX-REMOVED-API", "- {type")]


def test_labels_of_images() -> None:
    bundle = demo()
    assert findings(replace(bundle, image_labels={}), "openshift") == []
    assert findings(replace(bundle, image_labels={VERSIONS: "v4.14"}), "openshift") == []
    (finding,) = findings(replace(bundle, image_labels={VERSIONS: "v4.15"}), "openshift")
    assert finding.rule == "OPENSHIFT-VERSIONS-LABEL"
    (finding,) = findings(replace(demo((f"  {RANGE}\n", "")), image_labels={VERSIONS: "v4"}), "openshift")
    assert (finding.rule, finding.file) == ("OPENSHIFT-VERSIONS-FORMAT", "")


@pytest.mark.parametrize("value", ["1.21", "'1.26'", "latest", "''", "[]", "{a: 1}", "null"])
def test_invalid_maximum_of_kubernetes(value: str) -> None:
    found = findings(demo(maximum_of_kubernetes(value)), "community-pipeline")
    assert [finding.rule for finding in found] == ["PIPELINE-MAX-KUBE-VERSION"] * (value != "null")


def test_maximum_of_kubernetes_and_removed_apis() -> None:
    assert findings(demo(maximum_of_kubernetes("'1.27'")), "community-pipeline") == []
    assert findings(demo(maximum_of_kubernetes("'1.24'"), OLD_API, OLD_KUBE), "community-pipeline") == []
    (finding,) = findings(demo(maximum_of_kubernetes("'1.25'"), OLD_API, OLD_KUBE), "community-pipeline")
    assert "Kubernetes 1.25 removed APIs" in finding.message


def maximum_of_kubernetes(value: str) -> tuple[str, str]:
    return "    support: Demo", f"    operatorhub.io/ui-metadata-max-k8s-version: {value}\n    support: Demo"


REQUIRED = [
    ("displayName: Demo\n  description", "displayName: D\n  description"),
    ("displayName: Demo\n  description", f"displayName: {'d' * 2}\n  description"),
    ("  version: 1.2.3\n", "  version: v1.2\n"),
    ("base64data: PHN2", "base64data: '%%%'\n  - base64data: PHN2"),
    ("mediatype: image/svg+xml", "mediatype: image/webp"),
    ("    email: makers@example.com\n", ""),
    ("    name: Example\n", "    name: E\n"),
    ("    url: https://demo.example.com/\n", ""),
    ("  links:\n", "  links: []\n  ignored:\n"),
]
RECOMMENDED = [
    ("    capabilities: Basic Install\n", ""),
    ("    createdAt: '2026-01-31T09:00:00Z'", "    createdAt: yesterday"),
    ("repository: https://", "repository: git://"),
    ("support: Demo Makers", "support: DM"),
    ("keywords: [demo]", "keywords: []"),
    ("keywords: [demo]", "keywords: demo"),
    ("containerImage: quay.io/example/demo@sha256", "containerImage: demo@sha256"),
    ("    description: Makes demos of what an operator can do.\n    repo", "    description: demo\n    repo"),
]


@pytest.mark.parametrize("change", REQUIRED)
def test_required_fields(change: tuple[str, str]) -> None:
    assert [finding.rule for finding in findings(demo(change), "community-pipeline")] == ["PIPELINE-REQUIRED-FIELD"]


@pytest.mark.parametrize("change", RECOMMENDED)
def test_recommended_fields(change: tuple[str, str]) -> None:
    assert [finding.rule for finding in findings(demo(change), "community-pipeline")] == ["PIPELINE-RECOMMENDED-FIELD"]


def test_every_rule_has_a_broken_bundle_and_is_documented() -> None:
    rules = [rule for name in VALIDATORS for rule in validators()[name]]
    broken = {bundle.name for bundle in broken_bundles()}
    assert {rule.id.lower() for rule in rules} <= broken
    assert all(rule.explanation and rule.bad and rule.good for rule in rules)
    assert [finding for name in VALIDATORS for finding in findings(demo(), name)] == []
