"""Requirements of pipelines on catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.index.fbc.blobs import BlobProperty, Blobs, BundleBlob, PackageBlob, RelatedImage, SourceLocation
from opmkit.index.fbc.check.policy import CatalogPolicy, check_policy

if TYPE_CHECKING:
    from opmkit.index.fbc.findings import CatalogFinding

OBJECT, METADATA = BlobProperty("olm.bundle.object", {}), BlobProperty("olm.csv.metadata", {})
DIGEST = f"sha256:{'0' * 64}"


def check(policy: CatalogPolicy, *properties: BlobProperty, image: str = "") -> list[CatalogFinding]:
    bundle = BundleBlob("demo.v1", "demo", image, properties, location=SourceLocation("a.yaml", 3))
    return list(check_policy(Blobs((PackageBlob("demo"),), bundles=(bundle,)), policy))


def messages(version: str, *properties: BlobProperty) -> list[str]:
    findings = check(CatalogPolicy(OpenShiftVersion.parse(version)), *properties)
    assert all(finding.hint and finding.location == "a.yaml:3" for finding in findings)
    return [finding.message for finding in findings]


@pytest.mark.parametrize(
    ("version", "properties", "expected"),
    [
        ("4.16", (OBJECT,), []),
        ("4.17", (METADATA,), []),
        ("5.0", (METADATA,), []),
        ("4.16", (METADATA,), ["OpenShift 4.16 requires the property olm.bundle.object instead of olm.csv.metadata"]),
        ("4.17", (OBJECT,), ["OpenShift 4.17 requires the property olm.csv.metadata instead of olm.bundle.object"]),
        ("4.16", (METADATA, OBJECT), ["OpenShift 4.16 does not support the property olm.csv.metadata"]),
        ("4.20", (METADATA, OBJECT), ["OpenShift 4.20 does not support the property olm.bundle.object"]),
        ("4.9", (), ["OpenShift 4.9 requires the property olm.bundle.object"]),
        ("5.0", (), ["OpenShift 5.0 requires the property olm.csv.metadata"]),
    ],
)
def test_format_of_bundles(version: str, properties: tuple[BlobProperty, ...], expected: list[str]) -> None:
    assert messages(version, *properties) == expected


@pytest.mark.parametrize(("value", "count"), [("4.18", 0), ("4.17", 0), ("4.16", 1), (4.18, 1), ("x", 1), (None, 1)])
def test_last_version_of_a_bundle(value: Any, count: int) -> None:
    found = check(CatalogPolicy(OpenShiftVersion(4, 17)), METADATA, BlobProperty("olm.maxOpenShiftVersion", value))
    assert len(found) == count
    assert [finding.severity for finding in found] == [Severity.WARNING if value == "4.16" else Severity.ERROR] * count


@pytest.mark.parametrize(
    ("image", "count"),
    [("quay.io/a/b:1", 1), ("quay.io/a/b", 1), (f"quay.io/a/b@{DIGEST}", 0), (f"quay.io/a/b:1@{DIGEST}", 0), ("", 0)],
)
def test_digests(image: str, count: int) -> None:
    assert len(check(CatalogPolicy(pinned=True), image=image)) == count


@pytest.mark.parametrize(
    ("image", "count"),
    [
        ("quay.io/a/b:1", 0),
        ("reg/b", 0),
        ("quay.io/b:1", 1),
        ("", 0),
        ("host/b", 0),
        ("host.example.com/b", 1),
    ],
)
def test_registries(image: str, count: int) -> None:
    assert len(check(CatalogPolicy(registries=("quay.io/a/", "reg/", "host")), image=image)) == count


def test_catalog_without_packages() -> None:
    (finding,) = check_policy(Blobs(), CatalogPolicy(OpenShiftVersion(4, 17)))
    assert "no olm.package" in finding.message
    assert list(check_policy(Blobs(), CatalogPolicy())) == []


def test_related_images() -> None:
    related = (RelatedImage("operator", "quay.io/a/operator:1"), RelatedImage("", "quay.io/a/bundle:1"))
    bundle = BundleBlob("demo.v1", "demo", "quay.io/a/bundle:1", related_images=related)

    def found(policy: CatalogPolicy) -> list[tuple[str, str]]:
        return [(finding.rule, finding.message) for finding in check_policy(Blobs(bundles=(bundle,)), policy)]

    assert found(CatalogPolicy(pinned=True)) == [("GATE-DIGEST", "image quay.io/a/bundle:1 has no digest")]
    assert found(CatalogPolicy(pinned=True, related_images=True)) == [
        ("GATE-DIGEST", "image quay.io/a/bundle:1 has no digest"),
        ("GATE-DIGEST", "related image quay.io/a/operator:1 has no digest"),
    ]
    registries = ("quay.io/a/bundle", "reg")
    assert found(CatalogPolicy(registries=registries, related_images=True)) == [
        ("GATE-REGISTRY", "related image quay.io/a/operator:1 is not in an allowed registry: quay.io/a/bundle, reg")
    ]


def test_openshift_4_23_is_5_0() -> None:
    value = BlobProperty("olm.maxOpenShiftVersion", "4.23")
    bundles = Blobs(bundles=(BundleBlob("demo.v1", "demo", properties=(value,)),))

    def found(version: OpenShiftVersion) -> bool:
        return any(each.rule == "GATE-MAX-VERSION" for each in check_policy(bundles, CatalogPolicy(version)))

    assert [found(OpenShiftVersion(*each)) for each in ((4, 23), (5, 0), (5, 1))] == [False, False, True]


def test_rules_of_requirements() -> None:
    always = CatalogPolicy().rules
    assert "FBC-GRAPH" in always
    assert not any(rule.startswith("GATE-") for rule in always)
    assert CatalogPolicy(pinned=True).rules - always == {"GATE-DIGEST"}
    assert CatalogPolicy(registries=("a",)).rules - always == {"GATE-REGISTRY"}
    assert CatalogPolicy(unsigned={}).rules - always == {"GATE-SIGNATURE"}
    published, fragment = (CatalogPolicy(published={}, fragment=part).rules for part in (False, True))
    assert published - fragment == {"GATE-PACKAGE-REMOVED"}
    assert "GATE-HEAD" in fragment
    assert "GATE-MAX-VERSION" in CatalogPolicy(OpenShiftVersion(4, 17)).rules
