"""Which packages a copy takes, and why."""

from __future__ import annotations

from typing import Any

import pytest

from opmkit.index.errors import CatalogError, InvalidCatalog, UnknownPackage
from opmkit.index.fbc.blobs import Blobs
from opmkit.index.operations.copy.copy import CopyAction, CopyPlan, plan_copy
from opmkit.index.operations.filter.result import PackageFilter
from opmkit.index.operations.merge.result import MergeConflict, NamedCatalog
from tests.index.operations.merge.test_merge import contents, package, read

API = {"group": "example.com", "kind": "Reef", "version": "v1"}
PACKAGE_B = {"package": {"packageName": "b", "versionRange": "1.x"}}
OTHER_API = {"group": "example.com", "kind": "Storm", "version": "v1"}


def with_properties(documents: list[Any], *properties: tuple[str, Any]) -> list[Any]:
    """Add properties to all bundles."""
    for document in documents:
        if document["schema"] == "olm.bundle":
            document["properties"] += [{"type": kind, "value": value} for kind, value in properties]
    return documents


def requires_package(name: str, version_range: str = ">=1.0.0") -> tuple[str, Any]:
    return "olm.package.required", {"packageName": name, "versionRange": version_range}


SOURCE = read(
    with_properties(package("lagoon", "1.0.0 1.1.0"), requires_package("reef")),
    with_properties(package("reef"), ("olm.gvk.required", OTHER_API)),
    with_properties(package("storm"), ("olm.gvk", OTHER_API), requires_package("lagoon")),
    with_properties(package("gale"), ("olm.gvk", OTHER_API)),
    package("atoll"),
)


def plan(
    target: Blobs,
    *filters: str,
    source: Blobs = SOURCE,
    dependencies: bool = True,
    prefer: tuple[str, ...] = (),
) -> CopyPlan:
    return plan_copy(
        NamedCatalog("A", source),
        NamedCatalog("B", target),
        list(map(PackageFilter.parse, filters)),
        dependencies=dependencies,
        prefer=prefer,
    )


def actions(found: CopyPlan) -> dict[str, str]:
    return {each.package: each.action.value for each in found.result.packages}


def test_dependencies_are_followed_and_listed_with_their_reason() -> None:
    found = plan(Blobs(), "lagoon")
    assert list(found.result.lines()) == [
        "package lagoon: copied from A",
        "package reef: copied from A; lagoon.v1.0.0 and 1 more of package lagoon require the package reef >=1.0.0",
        "package gale: copied from A; reef.v1.0.0 of package reef requires the API example.com/v1 Storm",
        "package storm: copied from A; reef.v1.0.0 of package reef requires the API example.com/v1 Storm",
    ]
    assert found.warnings == ()
    expected = [blob for blob in SOURCE if blob.package != "atoll"]
    assert contents(Blobs.from_blobs(blob for blobs in found.packages.values() for blob in blobs)) == contents(
        Blobs.from_blobs(expected)
    )


def test_a_named_provider_replaces_the_others() -> None:
    assert actions(plan(Blobs(), "lagoon", "gale")) == {"lagoon": "added", "gale": "added", "reef": "added"}


def test_target_that_meets_requirements_gets_no_dependencies() -> None:
    target = read(package("reef", "1.0.0 1.2.0", image="other"))
    assert actions(plan(target, "lagoon")) == {"lagoon": "added"}
    provider = read(with_properties(package("typhoon"), ("olm.gvk", OTHER_API)))
    assert actions(plan(provider, "lagoon")) == {"lagoon": "added", "reef": "added"}


def test_without_dependencies_they_are_warnings() -> None:
    found = plan(Blobs(), "reef", "lagoon", dependencies=False)
    assert actions(found) == {"reef": "added", "lagoon": "added"}
    assert found.warnings == (
        "reef.v1.0.0 of package reef requires the API example.com/v1 Storm, which is not copied: gale and storm would "
        "meet it",
    )


def test_requirements_that_nothing_meets_are_warnings() -> None:
    source = read(with_properties(package("lagoon"), requires_package("reef", ">=7.0.0"), ("olm.gvk.required", API)))
    assert plan(Blobs(), "lagoon", source=source).warnings == (
        "lagoon.v1.0.0 of package lagoon requires the package reef >=7.0.0, which neither A nor B provides",
        "lagoon.v1.0.0 of package lagoon requires the API example.com/v1 Reef, which neither A nor B provides",
    )


@pytest.mark.parametrize(
    ("constraint", "taken"),
    [
        ({"all": {"constraints": [{"gvk": API}, PACKAGE_B]}}, ["a", "b"]),
        ({"any": {"constraints": [{"gvk": API}, PACKAGE_B]}}, ["a", "b"]),
        ({"any": {"constraints": [{"gvk": API}, {"gvk": OTHER_API}]}}, ["a"]),
        ({"not": {"constraints": [{"gvk": API}]}}, []),
        ({"cel": {"rule": "true"}}, []),
    ],
)
def test_compound_constraints(constraint: dict[str, Any], taken: list[str]) -> None:
    constraint = {"failureMessage": "f", **constraint}
    source = read(
        with_properties(package("lagoon"), ("olm.constraint", constraint)),
        with_properties(package("a"), ("olm.gvk", API)),
        package("b"),
    )
    assert list(actions(plan(Blobs(), "lagoon", source=source))) == ["lagoon", *taken]


def test_equal_packages_are_not_copied_but_their_dependencies_are() -> None:
    target = read(with_properties(package("lagoon", "1.0.0 1.1.0"), requires_package("reef")))
    found = plan(target, "lagoon")
    assert actions(found) == {"lagoon": "equal", "reef": "added", "gale": "added", "storm": "added"}
    assert "lagoon" not in found.packages


def test_different_packages_are_conflicts_unless_one_is_preferred() -> None:
    target = read(package("lagoon", "1.0.0"), package("reef", "0.1.0"))
    with pytest.raises(MergeConflict) as caught:
        plan(target, "lagoon")
    assert [conflict.package for conflict in caught.value.conflicts] == ["lagoon", "reef"]
    assert caught.value.lines[0] == 'package "lagoon": different content in B and A'
    assert caught.value.lines[-1] == (
        "  needed: lagoon.v1.0.0 and 1 more of package lagoon require the package reef >=1.0.0"
    )
    assert actions(plan(target, "lagoon", prefer=("A",))) == {
        "lagoon": "replaced", "reef": "replaced", "gale": "added", "storm": "added",
    }  # fmt: skip
    found = plan(target, "lagoon", prefer=("first", "lagoon=last"))
    assert actions(found) == {"lagoon": "replaced", "reef": "retained"}
    assert found.result.packages[1].action is CopyAction.RETAINED
    assert ", which is not copied: reef would meet it" in found.warnings[0]


def test_parts_of_packages_are_copied_without_other_documents() -> None:
    source = read(package("lagoon", "1.0.0 1.1.0"), [{"schema": "loose"}])
    found = plan(Blobs(), "lagoon@>=1.1.0", source=source)
    assert [bundle.name for bundle in found.packages["lagoon"].bundles] == ["lagoon.v1.1.0"]
    assert found.packages["lagoon"].others == ()


def test_mistakes() -> None:
    with pytest.raises(UnknownPackage, match='package "lagon" not found'):
        plan(Blobs(), "lagon")
    with pytest.raises(CatalogError, match='preferred source of package "ref": package not found in A'):
        plan(Blobs(), "lagoon", prefer=("ref=A",))
    broken = read(with_properties(package("lagoon"), requires_package("reef")), package("reef", channel="")[1:])
    with pytest.raises(InvalidCatalog):
        plan(Blobs(), "lagoon", source=broken)
