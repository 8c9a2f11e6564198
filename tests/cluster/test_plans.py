"""The real OLM follows plans to their end: what it installs, update by update, or what blocks a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.plan.candidate import CatalogKey, list_candidates
from opmkit.index.plan.namespace import Namespace, ResolvableCatalog, Subscription
from opmkit.index.plan.result import NamespacePlan
from opmkit.index.plan.walk import walk
from tests.kit.cluster.cluster import OPERATORS
from tests.kit.opm import PROGRAM
from tests.kit.plans import catalog, chain, embeds, package, requires_package, write
from tests.kit.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.cluster.cluster import Cluster

KEY = CatalogKey("plans", "olm")
API = {"group": "demo.com", "version": "v1", "kind": "Reef"}


DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "reefs.demo.com"},
    "spec": {
        "group": API["group"],
        "names": {"kind": API["kind"], "plural": "reefs", "singular": "reef", "listKind": "ReefList"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


def csv(name: str, *, owns: bool = False) -> dict[str, Any]:
    """Return a ClusterServiceVersion without Deployments, which succeeds at once."""
    owned = [{"name": "reefs.demo.com", "version": "v1", "kind": "Reef"}] if owns else []
    modes = {"OwnNamespace": True, "SingleNamespace": True, "MultiNamespace": False, "AllNamespaces": True}
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": "placeholder"},
        "spec": {
            "displayName": name,
            "version": name.partition(".v")[2],
            "customresourcedefinitions": {"owned": owned},
            "install": {"strategy": "deployment", "spec": {"deployments": []}},
            "installModes": [{"type": mode, "supported": supported} for mode, supported in modes.items()],
        },
    }


def operators() -> list[dict[str, Any]]:
    """Return the documents of the packages, whose bundles contain their objects."""
    needs = {"type": "olm.gvk.required", "value": API}
    requires = {
        "needs-package.v1.0.0": [requires_package("acme", ">=1.1.0 <1.2.0")],
        "needs-api.v1.0.0": [needs],
        "needs-nothing-known.v1.0.0": [requires_package("missing")],
        "reef.v1.0.0": [{"type": "olm.gvk", "value": API}],
    }
    steps = chain("acme.v1.0.0", "acme.v1.1.0", "acme.v1.2.0")
    skipping = [
        *chain("coral.v1.0.0", "coral.v1.1.0"),
        {"name": "coral.v1.2.0", "skips": ["coral.v1.0.0", "coral.v1.1.0"]},
    ]
    ranged = [{"name": "kelp.v1.0.0"}, {"name": "kelp.v2.0.0", "replaces": "kelp.v1.0.0", "skipRange": "<1.9.0"}]
    own = [{"name": "sand.v1.0.0"}, {"name": "sand.v1.1.0", "replaces": "sand.v1.0.0", "skipRange": ">=0.0.1"}]
    stuck: list[dict[str, Any]] = [{"name": "moss.v1.0.0"}]
    stuck += [{"name": "moss.v3.0.0", "replaces": "moss.v2.0.0", "skips": ["moss.v1.5.0"]}]
    documents = [
        *package("acme", {"stable": steps, "fast": chain("acme.v1.1.0", "acme.v1.2.0")}, requires),
        *package("coral", {"stable": skipping}, requires),
        *package("kelp", {"stable": ranged}, requires),
        *package("sand", {"stable": own}, requires),
        *package("moss", {"stable": [stuck[1]], "old": [stuck[0]]}, requires),
        *(
            item
            for name in ("needs-package", "needs-api", "needs-nothing-known", "reef")
            for item in package(name, {"stable": chain(f"{name}.v1.0.0")}, requires)
        ),
    ]
    for item in documents:
        if item["schema"] == "olm.bundle":
            del item["image"]
            owns = item["name"] == "reef.v1.0.0"
            objects = [csv(item["name"], owns=owns), *([DEFINITION] if owns else [])]
            item["properties"] += [embeds(each) for each in objects]
    return documents


CASES = {
    "head": [("acme", "stable", "")],
    "hops": [("acme", "stable", "acme.v1.0.0")],
    "other-channel": [("acme", "fast", "")],
    "skips": [("coral", "stable", "coral.v1.0.0")],
    "skip-range": [("kelp", "stable", "kelp.v1.0.0")],
    "skip-range-with-its-own-version": [("sand", "stable", "sand.v1.0.0")],
    "end-of-channel": [("moss", "old", "")],
    "package-dependency": [("needs-package", "stable", "")],
    "api-dependency": [("needs-api", "stable", ""), ("coral", "stable", "")],
    "missing-dependency": [("needs-nothing-known", "stable", ""), ("coral", "stable", "")],
    "missing-channel": [("acme", "stable", ""), ("moss", "beta", "")],
}
"""Subscriptions by namespace: package, channel and starting CSV."""


def plan(namespace: str) -> NamespacePlan:
    """Return the plan of a namespace."""
    subscriptions = [Subscription(name, name, channel, KEY, start) for name, channel, start in CASES[namespace]]
    source = ResolvableCatalog(KEY, list_candidates(catalog(operators()), KEY))
    return NamespacePlan(walk(Namespace(namespace, (source,), tuple(subscriptions))))


@pytest.fixture
def subscribed(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """Serve the packages, and create the namespaces with their Subscriptions."""
    write(tmp_path / "catalog", operators())
    with Server(str(tmp_path / "catalog"), program=(str(PROGRAM), "serve")) as server:
        source = {"sourceType": "grpc", "address": server.address, "displayName": "Plans"}
        cluster.client.apply(_object("CatalogSource", KEY.namespace, KEY.name, source))
        for namespace, subscriptions in CASES.items():
            cluster.create_namespace(namespace)
            group = _object("OperatorGroup", namespace, "group", {"targetNamespaces": [namespace]}, version="v1")
            cluster.client.apply(group)
            for name, channel, start in subscriptions:
                spec = {"name": name, "channel": channel, "source": KEY.name, "sourceNamespace": KEY.namespace}
                spec |= {"startingCSV": start} if start else {}
                cluster.client.apply(_object("Subscription", namespace, name, spec))
        yield cluster


def _object(kind: str, namespace: str, name: str, spec: dict[str, Any], *, version: str = "v1alpha1") -> dict[str, Any]:
    return {
        "apiVersion": f"operators.coreos.com/{version}",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def test_olm_follows_the_plans(subscribed: Cluster) -> None:
    client = subscribed.client
    blocked = []
    for namespace, subscriptions in CASES.items():
        planned = plan(namespace)
        base = f"{OPERATORS}/namespaces/{namespace}"
        if planned.is_blocked:
            blocked.append(namespace)
            client.wait(f"{base}/subscriptions/{subscriptions[0][0]}", _has_failed)
            assert client.list(f"{base}/clusterserviceversions") == []
            continue
        for bundle in planned.walk.final.installed:
            client.wait(f"{base}/clusterserviceversions/{bundle.name}", _has_succeeded)
        for resolution in planned.walk.resolutions:
            for step in resolution.steps:
                if step.replaces and all(step.replaces != each.name for each in planned.walk.final.installed):
                    client.wait_gone(f"{base}/clusterserviceversions/{step.replaces}")
        names = {each["metadata"]["name"] for each in client.list(f"{base}/clusterserviceversions")}
        assert names == {each.name for each in planned.walk.final.installed}, namespace
    assert blocked == ["missing-dependency", "missing-channel"]


def _has_failed(subscription: dict[str, Any]) -> bool:
    conditions = subscription.get("status", {}).get("conditions", [])
    return any(each["type"] == "ResolutionFailed" and each["status"] == "True" for each in conditions)


def _has_succeeded(version: dict[str, Any]) -> bool:
    return bool(version.get("status", {}).get("phase") == "Succeeded")
