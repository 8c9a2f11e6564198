"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.kit.dask_cluster import DaskCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.opm import Opm


@pytest.fixture
def opm_http(opm: Opm) -> Opm:
    """Return the command in an empty working directory with ``--use-http``."""
    return replace(opm, flags=("--use-http",))


@pytest.fixture(scope="session")
def dask_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Start a scheduler and two workers, once per test process; skip if distributed is not installed."""
    pytest.importorskip("distributed")
    with DaskCluster(tmp_path_factory.mktemp("dask")) as started:
        yield started
