"""Installation of OLM itself in a cluster; OLM's operators are only simulated."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.kit.cluster.cluster import OPERATORS, Cluster
from tests.kit.cluster.programs import custom_resource_definitions
from tests.kit.olm_release import RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm

PACKAGE_SERVER = f"{OPERATORS}/namespaces/olm/clusterserviceversions/packageserver"


@pytest.fixture
def empty_cluster() -> Iterator[Cluster]:
    with Cluster(olm=False) as started:
        yield started


@pytest.fixture
def release(tmp_path: Path) -> str:
    """Return a directory with the CRDs of OLM, and the objects of the stand-in."""
    directory = tmp_path / "release"
    directory.mkdir()
    definitions = b"\n---\n".join(path.read_bytes() for path in custom_resource_definitions())
    (directory / "crds.yaml").write_bytes(definitions)
    (directory / "olm.yaml").write_bytes((RELEASE / "olm.yaml").read_bytes())
    return str(directory)


@pytest.fixture
def olm_operator(empty_cluster: Cluster) -> Iterator[None]:
    """Install the package server as soon as its ClusterServiceVersion exists."""
    client, stopping = empty_cluster.client, threading.Event()

    def install() -> None:
        while not stopping.wait(0.2):
            csv = client.find(PACKAGE_SERVER)
            if csv and not csv.get("status"):
                (deployment,) = csv["spec"]["install"]["spec"]["deployments"]
                names = {"apiVersion": "apps/v1", "kind": "Deployment"}
                client.apply(
                    {**names, "metadata": {"name": "packageserver", "namespace": "olm"}, "spec": deployment["spec"]}
                )
                times = dict.fromkeys(("lastUpdateTime", "lastTransitionTime"), "2026-01-01T00:00:00Z")
                client.patch(f"{PACKAGE_SERVER}/status", {"status": {"phase": "Succeeded", **times}})

    thread = threading.Thread(target=install, daemon=True)
    thread.start()
    yield
    stopping.set()
    thread.join()


@pytest.mark.usefixtures("olm_operator")
def test_release_is_installed_and_removed(empty_cluster: Cluster, release: str, opm: Opm) -> None:
    opm = replace(opm, env={"KUBECONFIG": str(empty_cluster.kubeconfig)})
    installed = opm("olm", "install", "--from", release)
    assert opm("olm", "status", "--from", release) == installed
    assert opm.attempt("olm", "install", "--from", release).returncode == 1
    assert "Deleted" in opm("olm", "uninstall", "--from", release)
    assert empty_cluster.client.find("/api/v1/namespaces/olm") is None
    assert empty_cluster.client.list("/apis/apiextensions.k8s.io/v1/customresourcedefinitions") == []
