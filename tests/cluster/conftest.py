"""Fixtures of the tests with a cluster."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.cluster.cluster import Cluster
from tests.kit.cluster.operators import SampleOperator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

_NUMBERS = itertools.count(1)
_TIMEOUT = 1200
"""Seconds for one test."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this directory more time: those of a slow machine wait for many controllers."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(_TIMEOUT))


@pytest.fixture(scope="session")
def started_empty_cluster() -> Iterator[Cluster]:
    """Start a Kubernetes API server without OLM, one per worker."""
    with Cluster(olm=False) as started:
        yield started


@pytest.fixture
def empty_cluster(started_empty_cluster: Cluster) -> Iterator[Cluster]:
    """Return the cluster without OLM, and remove what the test has created."""
    yield started_empty_cluster
    started_empty_cluster.restore()


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """Return a new namespace of the cluster."""
    return cluster.create_namespace(f"test-{next(_NUMBERS)}")


@pytest.fixture
def kube_opm(opm: Opm, cluster: Cluster, namespace: str) -> Opm:
    """Return the command as a user whose kubeconfig selects ``namespace``."""
    kubeconfig = cluster.write_kubeconfig(opm.directory / "kubeconfig", namespace=namespace)
    return replace(opm, env={"KUBECONFIG": str(kubeconfig)})


@pytest.fixture
def operator(registry: Registry, tmp_path: Path) -> SampleOperator:
    """Return an operator whose names differ from those of other tests."""
    name = f"pond{next(_NUMBERS)}"
    return SampleOperator(name, f"{registry.host}/{name}/bundle", tmp_path / name)
