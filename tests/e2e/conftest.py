"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.dask_cluster import DaskCluster
from tests.kit.example_site import ExampleSite
from tests.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.forkserver import ForkServer


@pytest.fixture(scope="session")
def dask_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Start a scheduler and two workers, once per test process; skip if distributed is not installed."""
    pytest.importorskip("distributed")
    with DaskCluster(tmp_path_factory.mktemp("dask")) as started:
        yield started


@pytest.fixture(scope="session")
def example_site(tmp_path_factory: pytest.TempPathFactory, forkserver: ForkServer) -> Iterator[ExampleSite]:
    """Prepare the images and files of the documentation's examples, one site per worker."""
    with Registry() as registry:
        yield ExampleSite.create(tmp_path_factory.mktemp("examples"), registry, forkserver)
