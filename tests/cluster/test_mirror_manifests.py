"""Manifests for a mirror, created in a cluster with the resources of OpenShift and OLM v1."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests
import yaml

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry_config.mirror_rules import MirrorRule, MirrorScope
from opmkit.supply.mirror.cluster_manifests import cluster_manifests
from opmkit.supply.mirror.result import MirrorPolicy
from tests.kit.cluster.programs import binary

if TYPE_CHECKING:
    from tests.kit.cluster.cluster import Cluster

REPOSITORIES = [
    MirrorRule("registry.redhat.io/ubi9/app", "mirror.example.com:5000/ubi9/app"),
    MirrorRule("quay.io/my__team/sub-group/a.b_c", "mirror.example.com:5000/x/y", tags=True),
]
CATALOG = Reference("mirror.example.com:5000", "redhat/redhat-operator-index", "v4.20")


@pytest.fixture
def mirror_cluster(cluster: Cluster) -> Cluster:
    """Return a cluster that has ImageDigestMirrorSets, ImageTagMirrorSets and ClusterCatalogs."""
    definitions = [yaml.safe_load(path.read_bytes()) for path in Path(binary("mirror-crds")).glob("*.yaml")]
    cluster.client.apply(*definitions)
    for each in definitions:
        group, plural = each["spec"]["group"], each["spec"]["names"]["plural"]
        cluster.client.wait(f"/apis/{group}/v1/{plural}", lambda _: True)
    return cluster


@pytest.mark.parametrize("scope", MirrorScope)
def test_objects_are_accepted_unchanged(mirror_cluster: Cluster, scope: MirrorScope, namespace: str) -> None:
    policy = MirrorPolicy(scope, never_contact_source=True, namespace=namespace)
    for objects in cluster_manifests(REPOSITORIES, [CATALOG], policy).files.values():
        for each in objects:
            created = mirror_cluster.client.post(_collection(mirror_cluster, each), each)
            assert {key: created[key] for key in ("kind", "spec")} == {
                "kind": each["kind"],
                "spec": each["spec"] | ({"availabilityMode": "Available", "priority": 0} if _is_catalog(each) else {}),
            }
            mirror_cluster.client.delete(mirror_cluster.client.path(each))


def test_invalid_locations_are_rejected(mirror_cluster: Cluster) -> None:
    (objects,) = cluster_manifests([MirrorRule("quay.io/Me/app", "mirror.example.com/app")], []).files.values()
    with pytest.raises(requests.HTTPError, match="should match"):
        mirror_cluster.client.post(_collection(mirror_cluster, objects[0]), objects[0])


def _is_catalog(each: dict[str, object]) -> bool:
    return each["kind"] == "ClusterCatalog"


def _collection(cluster: Cluster, each: dict[str, object]) -> str:
    """Return the path to create an object at, which reports unknown fields as errors."""
    return f"{cluster.client.path(each).rpartition('/')[0]}?fieldValidation=Strict"
