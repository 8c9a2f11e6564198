"""ConfigMaps of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from opmkit.bundle.cluster import Cluster, ClusterError
from opmkit.bundle.config_map import MANAGED_ANNOTATIONS, ConfigMap, ExtractionOptions, bundle_config_map
from tests.kit.apiserver import ApiServer
from tests.kit.bundles import bundle_content, bundle_labels
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = bundle_content("demo", "1.0.0")
LABELS = {**bundle_labels("demo"), "operators.operatorframework.io.bundle.channel.default.v1": ""}
TARGET = ExtractionOptions("olm", "demo")


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with ApiServer(namespaces=("olm",)) as started:
        yield started


@pytest.fixture
def cluster(server: ApiServer, tmp_path: Path) -> Iterator[Cluster]:
    """Return a client with the rights of the user tester for an empty cluster."""
    server.config_maps.clear()
    rights = {user: set(verbs) for user, verbs in server.rights.items()}
    yield Cluster.connect(str(server.kubeconfig(tmp_path / "kubeconfig")))
    server.rights = rights
    server.before_update = lambda: None


@pytest.mark.slow
def test_cluster_accepts_the_keys(cluster: Cluster, server: ApiServer) -> None:
    names = {"a:b.yaml": "a-b.yaml", "..x": "-x", "\u00e4.yaml": "-.yaml", "_a.b-C": "_a.b-C", "x" * 255: "x" * 253}
    config_map = bundle_config_map({**FILES, **{f"manifests/{name}": name.encode() for name in names}}, TARGET)
    assert {key: config_map.data[key] for key in names.values()} == {key: name for name, key in names.items()}
    cluster.write(config_map)
    assert server.get("olm", "demo")["data"] == config_map.data


def test_write_creates_a_config_map(cluster: Cluster, server: ApiServer) -> None:
    config_map = bundle_config_map({**FILES, "manifests/icon.bin": b"\xff\x00"}, TARGET)
    cluster.write(config_map)
    assert [request.verb for request in server.requests[-2:]] == ["get", "create"]
    stored = server.get("olm", "demo")
    assert (stored["data"], stored["binaryData"]) == (config_map.data, {"icon.bin": "/wA="})
    assert cluster.read("olm", "demo") == config_map


def test_write_keeps_other_annotations_and_labels(cluster: Cluster, server: ApiServer) -> None:
    encoded = {"olm.contentEncoding": "gzip+base64", "olm.sourceImage": "old", "mine": "kept"}
    before = server.put("olm", "demo", {"old": "gone"}, labels={"app": "x"}, annotations=encoded)
    cluster.write(bundle_config_map(FILES, TARGET), replacing=MANAGED_ANNOTATIONS)
    after = server.get("olm", "demo")
    assert after["data"].keys() == {"csv.yaml"}
    assert after["metadata"]["annotations"] == {**LABELS, "mine": "kept"}
    assert after["metadata"]["labels"] == {"app": "x"}
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_write_retries_after_conflicts(cluster: Cluster, server: ApiServer) -> None:
    server.put("olm", "demo")
    changes = iter(range(3))

    def change() -> None:
        if next(changes, None) is not None:
            server.put("olm", "demo", annotations={"theirs": "kept"})

    server.before_update = change
    cluster.write(bundle_config_map(FILES, TARGET))
    assert server.get("olm", "demo")["metadata"]["annotations"] == {**LABELS, "theirs": "kept"}


@pytest.mark.slow
def test_write_fails_after_repeated_conflicts(cluster: Cluster, server: ApiServer) -> None:
    server.put("olm", "demo")
    server.before_update = lambda: server.put("olm", "demo", {"theirs": "x"})
    with pytest.raises(ClusterError, match="the object has been modified"):
        cluster.write(bundle_config_map(FILES, TARGET))
    assert server.get("olm", "demo")["data"] == {"theirs": "x"}


def test_errors_have_the_message_of_the_cluster(cluster: Cluster, server: ApiServer) -> None:
    with pytest.raises(ClusterError, match=r'^configmaps "demo" not found$'):
        cluster.read("olm", "demo")
    with pytest.raises(ClusterError, match=r'^namespaces "none" not found$'):
        cluster.write(ConfigMap("none", "demo"))
    with pytest.raises(ClusterError, match="Too long: must have at most 1048576 bytes"):
        cluster.write(ConfigMap("olm", "demo", {"x": "#" * ((1 << 20) + 1)}))
    server.rights["tester"] = {"get"}
    with pytest.raises(ClusterError, match='User "tester" cannot create resource "configmaps"') as failure:
        cluster.write(ConfigMap("olm", "demo"))
    assert "Role" in str(failure.value.hint)
    assert server.config_maps == {}


@pytest.mark.parametrize(("auth", "user"), [("token", "tester"), ("certificate", "client")])
def test_credentials(auth: str, user: str, cluster: Cluster, server: ApiServer, tmp_path: Path) -> None:
    server.put("olm", "demo", {"a": "b"})
    assert Cluster.connect(str(server.kubeconfig(tmp_path / auth, auth=auth))).read("olm", "demo").data == {"a": "b"}
    assert server.requests[-1].user == user


def test_unknown_user(server: ApiServer, tmp_path: Path) -> None:
    unprivileged = Cluster.connect(str(server.kubeconfig(tmp_path / "kubeconfig", auth="none")))
    with pytest.raises(ClusterError, match=r"^Unauthorized$") as failure:
        unprivileged.read("olm", "demo")
    assert failure.value.status == 401


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is empty"),
        ("- a\n", "not a kubeconfig"),
        ("hello\n", "not a kubeconfig"),
        ("a: [", "while parsing"),
        ("apiVersion: v1\nkind: Config\n", "current-context"),
        ("current-context: x\nclusters: 1\ncontexts: 2\nusers: 3\n", "not a kubeconfig"),
    ],
)
def test_invalid_kubeconfig(content: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(ClusterError, match=f"invalid kubeconfig {path}: .*{problem}"):
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
        Cluster.connect(str(server.kubeconfig(path, server="https://127.0.0.1:1"))).read("olm", "demo")
    config = yaml.safe_load(server.kubeconfig(path).read_text())
    del config["clusters"][0]["cluster"]["certificate-authority-data"]
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(ClusterError, match="certificate verify failed"):
        Cluster.connect(str(path)).read("olm", "demo")


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (200, b"<html>", "invalid response"),
        (200, b'{"data": ["x"]}', "invalid response"),
        (200, b'{"binaryData": {"x": "!"}}', "invalid response"),
        (502, b"<html>", "responded 502 Bad Gateway"),
        (500, b"[]", "responded 500 Internal Server Error"),
    ],
)
def test_server_that_is_not_an_api_server(
    status: int, body: bytes, problem: str, server: ApiServer, tmp_path: Path
) -> None:
    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server names it)
            self.answer(status, body, {"Content-Type": "application/json"})

    with WebServer(Handler) as other, pytest.raises(ClusterError, match=problem):
        Cluster.connect(str(server.kubeconfig(tmp_path / "k", server=f"http://{other.host}"))).read("olm", "demo")
