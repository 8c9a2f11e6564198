"""Connections to clusters: kubeconfig files, credentials, certificates and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from opmkit.kube import Cluster, ClusterError, transport
from opmkit.kube.api import CONFIG_MAP
from tests.kit.apiserver import ApiServer
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with ApiServer(namespaces=("olm",)) as started:
        yield started


@pytest.mark.parametrize(("auth", "user"), [("token", "tester"), ("certificate", "client")])
def test_credentials(auth: str, user: str, server: ApiServer, tmp_path: Path) -> None:
    server.put_config_map("olm", "demo", {"a": "b"})
    cluster = Cluster.connect(str(server.kubeconfig(tmp_path / auth, auth=auth)))
    assert cluster.get(CONFIG_MAP, "demo", "olm")["data"] == {"a": "b"}
    assert server.requests[-1].user == user


def test_unknown_user(server: ApiServer, tmp_path: Path) -> None:
    unprivileged = Cluster.connect(str(server.kubeconfig(tmp_path / "kubeconfig", auth="none")))
    with pytest.raises(ClusterError, match=r"^Unauthorized$") as failure:
        unprivileged.get(CONFIG_MAP, "demo", "olm")
    assert failure.value.status == 401


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is empty"),
        ("- a\n", "not a kubeconfig"),
        ("hello\n", "not a kubeconfig"),
        ("a: [", "did not find expected node content"),
        ("apiVersion: v1\nkind: Config\n", "current-context"),
        ("current-context: x\nclusters: 1\ncontexts: 2\nusers: 3\n", "not a kubeconfig"),
    ],
)
def test_invalid_kubeconfig(content: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(ClusterError, match=f"invalid kubeconfig {path}:.*{problem}"):
        Cluster.connect(str(path))


def test_missing_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match="no such file"):
        Cluster.connect(str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterError, match="not running in a pod") as failure:
        Cluster.connect()
    assert "kubeconfig" in str(failure.value.hint)


def test_unreachable_and_untrusted_servers(server: ApiServer, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    with pytest.raises(ClusterError, match=r"cannot reach the API server https://127.0.0.1:1: .*refused"):
        Cluster.connect(str(server.kubeconfig(path, server="https://127.0.0.1:1"))).get(CONFIG_MAP, "demo", "olm")
    config = yaml.safe_load(server.kubeconfig(path).read_text())
    del config["clusters"][0]["cluster"]["certificate-authority-data"]
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(ClusterError, match="certificate verify failed"):
        Cluster.connect(str(path)).get(CONFIG_MAP, "demo", "olm")


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (200, b"<html>", "invalid response"),
        (200, b"\xff", "invalid response"),
        (200, b"[" * 100_000, "invalid response"),
        (200, b"[1]", "invalid response"),
        (200, b'{"data": {}}', "not a ConfigMap"),
        (200, b'{"kind": "Pod", "metadata": {}}', "not a ConfigMap"),
        (200, b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": 1}', "without metadata"),
        (502, b"<html>", "responded 502 Bad Gateway"),
        (500, b"[]", "responded 500 Internal Server Error"),
    ],
)
def test_server_that_is_not_an_api_server(
    status: int, body: bytes, problem: str, server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server names it)
            self.answer(status, body, {"Content-Type": "application/json"})

    monkeypatch.setattr(transport, "BACKOFF", 0.001)
    with WebServer(Handler) as other:
        cluster = Cluster.connect(str(server.kubeconfig(tmp_path / "k", server=f"http://{other.host}")))
        with pytest.raises(ClusterError, match=problem):
            cluster.get(CONFIG_MAP, "demo", "olm")
