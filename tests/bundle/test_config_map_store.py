"""ConfigMaps in a cluster."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.config_map import (
    MANAGED_ANNOTATIONS,
    ConfigMap,
    ExtractionOptions,
    bundle_config_map,
    read_config_map,
    write_config_map,
)
from opmkit.kube import Cluster, ClusterError
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
    server.clear("ConfigMap")
    rights = {user: set(verbs) for user, verbs in server.rights.items()}
    yield Cluster.connect(str(server.kubeconfig(tmp_path / "kubeconfig")))
    server.rights = rights
    server.before_update = lambda: None


@pytest.mark.slow
def test_cluster_accepts_the_keys(cluster: Cluster, server: ApiServer) -> None:
    names = {"a:b.yaml": "a-b.yaml", "..x": "-x", "\u00e4.yaml": "-.yaml", "_a.b-C": "_a.b-C", "x" * 255: "x" * 253}
    config_map = bundle_config_map({**FILES, **{f"manifests/{name}": name.encode() for name in names}}, TARGET)
    assert {key: config_map.data[key] for key in names.values()} == {key: name for name, key in names.items()}
    write_config_map(cluster, config_map)
    assert server.get("ConfigMap", "demo", "olm")["data"] == config_map.data


def test_write_creates_a_config_map(cluster: Cluster, server: ApiServer) -> None:
    config_map = bundle_config_map({**FILES, "manifests/icon.bin": b"\xff\x00"}, TARGET)
    write_config_map(cluster, config_map)
    assert [request.verb for request in server.requests[-2:]] == ["get", "create"]
    stored = server.get("ConfigMap", "demo", "olm")
    assert (stored["data"], stored["binaryData"]) == (config_map.data, {"icon.bin": "/wA="})
    assert read_config_map(cluster, "olm", "demo") == config_map


def test_write_keeps_other_annotations_and_labels(cluster: Cluster, server: ApiServer) -> None:
    encoded = {"olm.contentEncoding": "gzip+base64", "olm.sourceImage": "old", "mine": "kept"}
    before = server.put_config_map("olm", "demo", {"old": "gone"}, labels={"app": "x"}, annotations=encoded)
    write_config_map(cluster, bundle_config_map(FILES, TARGET), replacing=MANAGED_ANNOTATIONS)
    after = server.get("ConfigMap", "demo", "olm")
    assert after["data"].keys() == {"csv.yaml"}
    assert after["metadata"]["annotations"] == {**LABELS, "mine": "kept"}
    assert after["metadata"]["labels"] == {"app": "x"}
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_write_retries_after_conflicts(cluster: Cluster, server: ApiServer) -> None:
    server.put_config_map("olm", "demo")
    changes = iter(range(3))

    def change() -> None:
        if next(changes, None) is not None:
            server.put_config_map("olm", "demo", annotations={"theirs": "kept"})

    server.before_update = change
    write_config_map(cluster, bundle_config_map(FILES, TARGET))
    assert server.get("ConfigMap", "demo", "olm")["metadata"]["annotations"] == {**LABELS, "theirs": "kept"}


@pytest.mark.slow
def test_write_fails_after_repeated_conflicts(cluster: Cluster, server: ApiServer) -> None:
    server.put_config_map("olm", "demo")
    numbers = count()
    server.before_update = lambda: server.put_config_map("olm", "demo", {"theirs": str(next(numbers))})
    with pytest.raises(ClusterError, match="the object has been modified"):
        write_config_map(cluster, bundle_config_map(FILES, TARGET))
    assert server.get("ConfigMap", "demo", "olm")["data"].keys() == {"theirs"}


def test_errors_have_the_message_of_the_cluster(cluster: Cluster, server: ApiServer) -> None:
    with pytest.raises(ClusterError, match=r'^configmaps "demo" not found$'):
        read_config_map(cluster, "olm", "demo")
    with pytest.raises(ClusterError, match=r'^namespaces "none" not found$'):
        write_config_map(cluster, ConfigMap("none", "demo"))
    with pytest.raises(ClusterError, match="Too long: must have at most 1048576 bytes"):
        write_config_map(cluster, ConfigMap("olm", "demo", {"x": "#" * ((1 << 20) + 1)}))
    server.rights["tester"] = {"get"}
    with pytest.raises(ClusterError, match='User "tester" cannot create resource "configmaps"') as failure:
        write_config_map(cluster, ConfigMap("olm", "demo"))
    assert "Role" in str(failure.value.hint)
    assert server.objects("ConfigMap") == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo"}, "data": ["x"]}',
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo"}, "data": {"x": 1}}',
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo"}, "binaryData": {"x": "!"}}',
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": "x"}}',
    ],
)
def test_invalid_config_maps(body: bytes, server: ApiServer, tmp_path: Path) -> None:
    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server names it)
            self.answer(200, body, {"Content-Type": "application/json"})

    with WebServer(Handler) as other:
        cluster = Cluster.connect(str(server.kubeconfig(tmp_path / "k", server=f"http://{other.host}")))
        with pytest.raises(ClusterError, match="invalid response from the API server"):
            read_config_map(cluster, "olm", "demo")
