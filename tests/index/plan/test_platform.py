from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.model import Catalog
from opmkit.index.plan.platform import PlatformCatalog, PlatformStep, parse_platforms, plan_platforms
from tests.kit.plans import chain, encode, package

OLD = [{"type": "olm.maxOpenShiftVersion", "value": "4.18"}]
PHASES = [{"name": "Full support", "startDate": "2025-01-01", "endDate": "2025-12-31"}]


def lifecycle(*platforms: str) -> dict[str, Any]:
    version = {"name": "1.1", "phases": PHASES}
    if platforms:
        version["platformCompatibility"] = [{"name": "openshift", "versions": list(platforms)}]
    return {"schema": "io.openshift.operators.lifecycles.v1alpha1", "package": "acme", "versions": [version]}


def platform(version: str, documents: list[dict[str, Any]]) -> PlatformCatalog:
    blobs = parse_blobs(encode(documents), "c.json")
    return PlatformCatalog(OpenShiftVersion.parse(version), Catalog.from_blobs(blobs), blobs.others)


def steps(
    *platforms: tuple[str, list[dict[str, Any]]], installed: str = "acme.v1.0.0", **options: Any
) -> list[PlatformStep]:
    return list(plan_platforms([platform(*each) for each in platforms], [installed], **options).steps)


BOTH = package("acme", {"stable": chain("acme.v1.0.0", "acme.v1.1.0")}, {"acme.v1.0.0": OLD})
NEXT = package("acme", {"stable": chain("acme.v1.1.0", "acme.v1.2.0")})


def test_an_operator_must_be_updated_before_the_cluster() -> None:
    first, second = steps(("4.18", BOTH), ("4.19", NEXT))
    assert (first.platform, first.hops, first.needed, first.problem) == ("4.18", ("acme.v1.1.0",), "acme.v1.1.0", "")
    assert (second.platform, second.installed, second.final, second.needed) == (
        "4.19",
        "acme.v1.1.0",
        "acme.v1.2.0",
        "",
    )


def test_no_version_for_the_next_platform_blocks_the_cluster() -> None:
    only = package("acme", {"stable": chain("acme.v1.0.0")}, {"acme.v1.0.0": OLD})
    (step,) = steps(("4.18", only), ("4.19", NEXT))
    assert (step.kind, step.needed) == ("blocked", "")
    assert step.problem == "works up to OpenShift 4.18, so that the cluster is not updated to 4.19"
    plan = plan_platforms([platform("4.18", only), platform("4.19", NEXT)], ["acme.v1.0.0"])
    assert plan.fails(["blocked"])
    assert not plan.fails(["stuck"])


def test_a_package_or_channel_may_be_missing_on_the_next_platform() -> None:
    other = package("acme", {"fast": chain("acme.v1.1.0")})
    first, second = steps(("4.18", BOTH), ("4.19", other), ("4.20", other))
    assert (first.kind, second.kind) == ("", "gone")
    assert second.problem == "package acme has no channel stable, only fast"


def test_a_version_may_be_stuck_on_the_next_platform() -> None:
    beyond = package("acme", {"stable": chain("acme.v1.2.0", "acme.v1.3.0")})
    _, second, third = steps(("4.18", BOTH), ("4.19", beyond), ("4.20", beyond))
    assert (second.kind, third.kind, third.installed) == ("stuck", "stuck", "acme.v1.1.0")


def test_lifecycles_say_until_when_and_where_a_version_is_supported() -> None:
    first, second = steps(("4.18", [*BOTH, lifecycle("4.18")]), ("4.19", [*BOTH, lifecycle("4.18")]))
    assert (first.support_ends, first.kind) == (date(2025, 12, 31), "")
    assert (second.kind, second.problem) == ("unsupported", "its lifecycle does not name OpenShift 4.19")
    assert [step.kind for step in steps(("4.18", [*BOTH, lifecycle()]), ("4.19", BOTH))] == ["", ""]
    assert steps(("4.18", [*BOTH, lifecycle(), lifecycle()]))[0].support_ends is None


def test_the_channel_is_the_default_one_or_the_given_one() -> None:
    two = package("acme", {"stable": chain("acme.v1.0.0", "acme.v1.1.0"), "fast": chain("acme.v1.0.0", "acme.v2.0.0")})
    assert steps(("4.18", two))[0].channel == "stable"
    assert steps(("4.18", two), channels={"acme": "fast"})[0].final == "acme.v2.0.0"
    with pytest.raises(CatalogError, match=r"'acme\.v1\.0\.0' is not in channel slow"):
        steps(("4.18", two), channels={"acme": "slow"})
    with pytest.raises(CatalogError, match=r"'acme\.v9' not found in the catalog of OpenShift 4\.18"):
        steps(("4.18", two), installed="acme.v9")


def test_platforms_are_sorted_versions() -> None:
    parsed = parse_platforms({"v4.20": "c", "4.9": "a", "v4.18": "b"})
    assert [(str(version), index) for version, index in parsed] == [("4.9", "a"), ("4.18", "b"), ("4.20", "c")]
    with pytest.raises(CatalogError, match=r"several catalogs are for OpenShift 4\.18"):
        parse_platforms({"v4.18": "a", "4.18": "b"})
    with pytest.raises(CatalogError, match="catalog next"):
        parse_platforms({"next": "a"})


@pytest.mark.parametrize(
    ("label", "problem"),
    [
        ("", ""),
        ("v4.12", ""),
        ("v4.12-v4.19", ""),
        ("v4.12-v4.18", "its label com.redhat.openshift.versions (v4.12-v4.18) excludes OpenShift 4.19"),
        ("=v4.20", "its label com.redhat.openshift.versions (=v4.20) excludes OpenShift 4.19"),
        ("v5.0", "its label com.redhat.openshift.versions (v5.0) excludes OpenShift 4.19"),
        ("new", "its label com.redhat.openshift.versions is invalid: 'new' is not a version of the form v4.12"),
    ],
)
def test_labels_of_bundle_images_exclude_versions_of_openshift(label: str, problem: str) -> None:
    labels = {"quay.io/me/acme.v1.2.0": label}
    _, last = steps(("4.18", BOTH), ("4.19", NEXT), read_label=lambda image: labels.get(image, ""))
    assert (last.kind, last.problem) == ("unsupported" if problem else "", problem)
