"""Fixtures of the tests of clients for clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.kube import Cluster
from tests.kit.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(namespaces=("olm",)) as started:
        yield started


@pytest.fixture
def cluster(server: ApiServer, tmp_path: Path) -> Cluster:
    """Return a client with the rights of the user tester."""
    return Cluster.connect(str(server.kubeconfig(tmp_path / "kubeconfig")), namespace="olm")
