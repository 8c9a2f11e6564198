"""A served catalog in a cluster with OLM: install and upgrade an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from tests.kit.cluster.cluster import OPERATORS
from tests.kit.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.cluster.client import Object
    from tests.kit.cluster.cluster import Cluster
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

PACKAGE = "lagoon-operator"


@pytest.fixture
def catalog(opm_http: Opm, registry: Registry) -> str:
    """Return an index image with two versions of the sample operator."""
    repository = f"{registry.host}/served"
    bundles = [f"{repository}/bundle:{version}" for version in ("0.1.0", "0.2.0")]
    for version, bundle in zip(("0.1.0", "0.2.0"), bundles, strict=True):
        opm_http.build_bundle(version, bundle, "--push", "--overwrite")
    index = f"{repository}/catalog:1"
    opm_http("index", "add", "-b", ",".join(bundles), "-i", "scratch", "-t", index, "--push")
    return index


@pytest.fixture
def served(opm_http: Opm, catalog: str) -> Iterator[Server]:
    """Serve the index as a file-based catalog."""
    directory = opm_http.directory / "catalog"
    directory.mkdir()
    (directory / "index.yaml").write_text(opm_http("render", catalog, "-o", "yaml"))
    with Server(str(directory), program=(*opm_http.argv()[:1], "serve")) as server:
        yield server


@pytest.fixture
def installed(opm_http: Opm, cluster: Cluster, catalog: str, served: Server) -> str:
    """Apply the manifests for the package and return its namespace."""
    output = opm_http(
        *("index", "manifests", catalog, "--address", served.address, "--name", "served", "--package", PACKAGE),
        *("--starting-csv", f"{PACKAGE}.v0.1.0", "--approval", "manual", "--install-namespace", "lagoons"),
    )
    manifests: list[Object] = list(yaml.safe_load_all(output))
    cluster.client.apply(*manifests)
    return "lagoons"


def approve(cluster: Cluster, namespace: str, csv: str) -> None:
    """Approve the InstallPlan of a version and wait until the version is installed."""
    client, parent = cluster.client, f"{OPERATORS}/namespaces/{namespace}"
    subscription = client.wait(
        f"{parent}/subscriptions/{PACKAGE}", lambda found: found.get("status", {}).get("currentCSV") == csv
    )
    plan = f"{parent}/installplans/{subscription['status']['installPlanRef']['name']}"
    client.wait(plan, lambda found: csv in found["spec"]["clusterServiceVersionNames"])
    client.patch(plan, {"spec": {"approved": True}})
    client.wait(
        f"{parent}/clusterserviceversions/{csv}", lambda found: found.get("status", {}).get("phase") == "Succeeded"
    )


def test_operator_is_installed_and_upgraded_from_a_served_catalog(cluster: Cluster, installed: str) -> None:
    first, second = f"{PACKAGE}.v0.1.0", f"{PACKAGE}.v0.2.0"
    approve(cluster, installed, first)
    approve(cluster, installed, second)
    csvs = f"{OPERATORS}/namespaces/{installed}/clusterserviceversions"
    cluster.client.wait_gone(f"{csvs}/{first}")
    assert [csv["metadata"]["name"] for csv in cluster.client.list(csvs)] == [second]
    deployments = cluster.client.list(f"/apis/apps/v1/namespaces/{installed}/deployments")
    assert [each["status"]["availableReplicas"] for each in deployments] == [1]
