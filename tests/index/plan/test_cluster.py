from __future__ import annotations

import json
from typing import Any

import pytest

from opmkit.index.errors import CatalogError
from opmkit.index.plan.candidate import CatalogKey, list_candidates
from opmkit.index.plan.cluster import ClusterState, plan_cluster
from opmkit.index.plan.namespace import ResolvableCatalog
from tests.kit.plans import catalog, catalog_source, chain, operator_group, package, subscription, version

ACME = package("acme", {"stable": chain("acme.v1.0.0", "acme.v1.1.0")})


def state(*objects: dict[str, Any]) -> ClusterState:
    return ClusterState.parse(json.dumps({"kind": "List", "items": objects}).encode(), "state.json")


def planned(found: ClusterState) -> dict[str, list[str] | str]:
    """Return the final bundles of each namespace, or why it is blocked."""
    catalogs = [
        ResolvableCatalog(source.key, list_candidates(catalog(ACME), source.key)) for source in found.needed_sources()
    ]
    result: dict[str, list[str] | str] = {}
    for each in plan_cluster(found, catalogs).namespaces:
        if each.plan is None:
            result[each.name] = each.problem
        elif problems := [problem.message for problem in each.plan.problems()]:
            result[each.name] = problems[0]
        else:
            result[each.name] = [item.name for item in each.plan.walk.final.installed]
    return result


BASE = (catalog_source("prod", "olm"), operator_group("a"))


def test_a_namespace_is_updated() -> None:
    found = state(*BASE, subscription("a", "acme", "stable", installed="acme.v1.0.0"), version("a", "acme.v1.0.0"))
    assert planned(found) == {"a": ["acme.v1.1.0"]}
    assert [each.key for each in found.sources] == [CatalogKey("prod", "olm")]
    assert found.global_namespace == "olm"


def test_an_operator_without_a_subscription_remains() -> None:
    found = state(*BASE, subscription("a", "acme", "stable"), version("a", "other.v1.0.0"))
    (namespace,) = found.namespaces
    assert [(item.name, item.is_mandatory) for item in namespace.installed] == [("other.v1.0.0", True)]
    assert planned(found) == {"a": ["acme.v1.1.0", "other.v1.0.0"]}


def test_copied_and_missing_versions_are_not_installed() -> None:
    copied = version("a", "acme.v1.0.0", labels={"olm.copiedFrom": "b"})
    (namespace,) = state(*BASE, subscription("a", "acme", "stable", installed="acme.v1.0.0"), copied).namespaces
    assert namespace.installed == ()
    assert namespace.subscriptions[0].installed_csv == ""


def test_properties_are_those_of_the_annotation_or_inferred() -> None:
    api = {"group": "acme.io", "version": "v1", "kind": "Thing"}
    properties = [{"type": "olm.gvk", "value": api}, {"type": "olm.package", "value": {"packageName": "acme"}}]
    annotated = version("a", "acme.v1.0.0", properties=properties)
    inferred = version("a", "other.v1.0.0", owned=[{"name": "things.acme.io", "version": "v1", "kind": "Thing"}])
    (namespace,) = state(*BASE, subscription("a", "acme", "stable"), annotated, inferred).namespaces
    assert [item.bundle.apis for item in namespace.installed] == [frozenset({("acme.io", "v1", "Thing")})] * 2
    assert [item.package for item in namespace.installed] == ["acme", ""]


def test_operator_groups_decide_what_is_resolved() -> None:
    subscriptions = [subscription(name, "acme", "stable") for name in ("a", "b", "c")]
    excluding = operator_group("c", exclude=True)
    found = state(*BASE, operator_group("a", "second"), excluding, *subscriptions)
    blocked = planned(found)
    assert blocked["a"] == "it has 2 OperatorGroups instead of one, so that OLM resolves nothing"
    assert blocked["b"] == "it has 0 OperatorGroups instead of one, so that OLM resolves nothing"
    assert str(blocked["c"]).startswith("Subscription acme cannot be satisfied")
    assert found.visible_sources(found.namespaces[2]) == []


def test_a_cluster_without_operator_groups_gets_nothing() -> None:
    found = planned(state(catalog_source("prod", "olm"), subscription("a", "acme", "stable")))
    assert found == {"a": "it has 0 OperatorGroups instead of one, so that OLM resolves nothing"}


def test_manual_approval_is_a_note() -> None:
    (namespace,) = state(*BASE, subscription("a", "acme", "stable", approval="Manual")).namespaces
    assert namespace.notes == ("Subscription acme: each step waits for the approval of its InstallPlan",)


def test_sources_are_found_by_name() -> None:
    found = state(catalog_source("x", "one"), catalog_source("x", "two"), subscription("a", "acme", "stable"))
    assert found.find_source("two/x").key == CatalogKey("x", "two")
    with pytest.raises(CatalogError, match="several CatalogSources are called x") as caught:
        found.find_source("x")
    assert str(caught.value.hint) == "name one: one/x, two/x"
    with pytest.raises(CatalogError, match="CatalogSource 'y' not found"):
        found.find_source("y")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no Subscription found"),
        (b"\xff", "neither JSON nor YAML"),
        (b"[" * 100_000, "neither JSON nor YAML"),
        (b"items: [}", "neither JSON nor YAML"),
        (b"[]", "not a list of objects"),
        (b'{"items": {}}', "not a list of objects"),
        (b'{"items": []}', "no Subscription found"),
        (b'{"items": [1, null, {"kind": ["Subscription"]}, {"kind": "Pod"}]}', "no Subscription found"),
    ],
)
def test_invalid_states(content: bytes, message: str) -> None:
    with pytest.raises(CatalogError, match=rf"state\.json: {message}"):
        ClusterState.parse(content, "state.json")


@pytest.mark.parametrize("value", [None, 1, "x", [], [1], {"a": []}])
def test_fields_of_wrong_types_are_ignored(value: object) -> None:
    objects = [
        {"kind": kind, "metadata": {"name": "n", "namespace": "a", "labels": value}, "spec": value, "status": value}
        for kind in ("Subscription", "ClusterServiceVersion", "OperatorGroup", "CatalogSource")
    ]
    objects += [{"kind": "Subscription", "metadata": value}, {"kind": "ClusterServiceVersion", "spec": {"version": 1}}]
    found = state(*objects)
    catalogs = [ResolvableCatalog(source.key, ()) for source in found.needed_sources()]
    assert [each.name for each in plan_cluster(found, catalogs).namespaces] == ["", "a"]
