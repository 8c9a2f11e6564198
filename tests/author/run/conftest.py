"""A Kubernetes API server with the kinds of OLM, and a connection to its namespace ``ns``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.apiserver import ApiServer

from opmkit.author.run import session
from opmkit.kube import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """Start an API server with the namespace ``ns``."""
    with ApiServer(namespaces=("ns",), olm=True) as started:
        yield started


@pytest.fixture
def cluster(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a connection to the namespace ``ns`` that polls without a delay."""
    monkeypatch.setattr(session, "POLL_INTERVAL", 0.01)
    return Cluster.connect(str(server.kubeconfig(tmp_path / "kubeconfig")), namespace="ns")
