"""A cluster with scripted controllers, and a small stand-in for an OLM release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.apiserver import ApiServer
from tests.kit.olm_release import RELEASE

from opmkit.author.install.release import Release, parse_release
from opmkit.author.run import session
from opmkit.kube import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    monkeypatch.setattr(session, "POLL_INTERVAL", 0.01)
    with ApiServer() as started:
        yield started


@pytest.fixture
def cluster(server: ApiServer, tmp_path: Path) -> Cluster:
    return Cluster.connect(str(server.kubeconfig(tmp_path / "kubeconfig")))


@pytest.fixture
def release() -> Release:
    return parse_release({path.name: path.read_bytes() for path in sorted(RELEASE.iterdir())}, "release")
