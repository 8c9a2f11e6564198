"""Bundles as ConfigMaps, and the cluster that keeps them."""

from __future__ import annotations

import base64
import gzip
from typing import TYPE_CHECKING

import pytest
import yaml

from opmkit.bundle.cluster import Cluster, ClusterError
from opmkit.bundle.config_map import MANAGED_ANNOTATIONS, ConfigMap, ExtractionOptions, bundle_config_map
from opmkit.bundle.errors import BundleError, InvalidBundle
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
    """The cluster as the tester finds it, with nothing in it."""
    server.config_maps.clear()
    rights = {user: set(verbs) for user, verbs in server.rights.items()}
    yield Cluster.connect(str(server.kubeconfig(tmp_path / "kubeconfig")))
    server.rights = rights
    server.before_update = lambda: None


def test_files_become_values_and_annotations() -> None:
    files = {**FILES, "metadata/dependencies.yaml": b"dependencies: []\n", "manifests/deep/x.yaml": b"", "README": b"x"}
    assert bundle_config_map(files, TARGET) == ConfigMap(
        *("olm", "demo"),
        data={"csv.yaml": FILES["manifests/csv.yaml"].decode(), "dependencies.yaml": "dependencies: []\n"},
        annotations=LABELS,
    )


def test_the_image_is_noted() -> None:
    made = bundle_config_map(FILES, ExtractionOptions("olm", "demo", image="quay.io/me/demo:1"))
    assert made.annotations == {**LABELS, "olm.sourceImage": "quay.io/me/demo:1"}


def test_files_are_compressed_the_same_each_time() -> None:
    made = bundle_config_map(FILES, ExtractionOptions("olm", "demo", compress=True))
    assert made == bundle_config_map(FILES, ExtractionOptions("olm", "demo", compress=True))
    assert made.annotations == {**LABELS, "olm.contentEncoding": "gzip+base64"}
    assert made.data == {}
    [(key, value)] = made.binary_data.items()
    assert key == "csv.yaml"
    assert gzip.decompress(base64.b64decode(value, validate=True)) == FILES["manifests/csv.yaml"]


def test_what_is_no_text_is_binary() -> None:
    made = bundle_config_map({**FILES, "manifests/icon.bin": b"\xff\x00"}, TARGET)
    assert made.binary_data == {"icon.bin": b"\xff\x00"}
    assert made.manifest()["binaryData"] == {"icon.bin": "/wA="}


def test_keys_are_such_as_a_cluster_takes(cluster: Cluster, server: ApiServer) -> None:
    names = {"a:b.yaml": "a-b.yaml", "..x": "-x", "\u00e4.yaml": "-.yaml", "_a.b-C": "_a.b-C", "x" * 255: "x" * 253}
    made = bundle_config_map({**FILES, **{f"manifests/{name}": name.encode() for name in names}}, TARGET)
    assert {key: made.data[key] for key in names.values()} == {key: name for name, key in names.items()}
    cluster.write(made)
    assert server.get("olm", "demo")["data"] == made.data


def test_files_of_one_name_are_kept_apart() -> None:
    twins = {"manifests/a:b": b"1", "manifests/a-b": b"2", "metadata/a-b": b"3", "metadata/" + "x" * 254: b"4"}
    made = bundle_config_map({**FILES, **twins, "metadata/" + "x" * 255: b"5"}, TARGET)
    assert {made.data[key] for key in ("a-b", "a-b.2", "a-b.3")} == {"1", "2", "3"}
    assert {made.data[key] for key in ("x" * 253, "x" * 249 + ".2")} == {"4", "5"}


@pytest.mark.parametrize(
    ("limit", "compress", "hint"), [(10, False, "data_limit"), (10, True, "data_limit"), (1 << 20, False, "gzip")]
)
def test_a_bundle_that_is_too_large(limit: int, compress: bool, hint: str) -> None:
    files = {**FILES, "manifests/z.yaml": b"#" * (1 << 20)}
    with pytest.raises(BundleError, match=f"bundle files exceeded {limit} bytes limit, at manifests/") as failure:
        bundle_config_map(files, ExtractionOptions("olm", "demo", limit, compress))
    assert hint in str(failure.value.hint)


def test_the_limit_counts_what_is_stored_but_no_annotations() -> None:
    size = len(FILES["manifests/csv.yaml"])
    assert bundle_config_map(FILES, ExtractionOptions("olm", "demo", size)).data
    with pytest.raises(BundleError):
        bundle_config_map(FILES, ExtractionOptions("olm", "demo", size - 1))
    large = {**FILES, "manifests/z.yaml": b"#" * (2 << 20)}
    assert bundle_config_map(large, ExtractionOptions("olm", "demo", compress=True)).binary_data


def test_a_bundle_without_annotations() -> None:
    with pytest.raises(InvalidBundle, match="no annotations for the package and channels"):
        bundle_config_map({"manifests/csv.yaml": FILES["manifests/csv.yaml"]}, TARGET)


def test_a_new_config_map_is_made(cluster: Cluster, server: ApiServer) -> None:
    made = bundle_config_map({**FILES, "manifests/icon.bin": b"\xff\x00"}, TARGET)
    cluster.write(made)
    assert [request.verb for request in server.requests[-2:]] == ["get", "create"]
    stored = server.get("olm", "demo")
    assert (stored["data"], stored["binaryData"]) == (made.data, {"icon.bin": "/wA="})
    assert cluster.read("olm", "demo") == made


def test_one_that_is_there_keeps_what_is_not_of_the_bundle(cluster: Cluster, server: ApiServer) -> None:
    encoded = {"olm.contentEncoding": "gzip+base64", "olm.sourceImage": "old", "mine": "kept"}
    before = server.put("olm", "demo", {"old": "gone"}, labels={"app": "x"}, annotations=encoded)
    cluster.write(bundle_config_map(FILES, TARGET), replacing=MANAGED_ANNOTATIONS)
    after = server.get("olm", "demo")
    assert after["data"].keys() == {"csv.yaml"}
    assert after["metadata"]["annotations"] == {**LABELS, "mine": "kept"}
    assert after["metadata"]["labels"] == {"app": "x"}
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_a_change_by_another_client_in_between_is_not_the_end(cluster: Cluster, server: ApiServer) -> None:
    server.put("olm", "demo")
    changes = iter(range(3))

    def change() -> None:
        if next(changes, None) is not None:
            server.put("olm", "demo", annotations={"theirs": "kept"})

    server.before_update = change
    cluster.write(bundle_config_map(FILES, TARGET))
    assert server.get("olm", "demo")["metadata"]["annotations"] == {**LABELS, "theirs": "kept"}


def test_one_that_changes_all_the_time_is_given_up(cluster: Cluster, server: ApiServer) -> None:
    server.put("olm", "demo")
    server.before_update = lambda: server.put("olm", "demo", {"theirs": "x"})  # type: ignore[assignment,return-value]
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
def test_who_one_is(auth: str, user: str, cluster: Cluster, server: ApiServer, tmp_path: Path) -> None:
    server.put("olm", "demo", {"a": "b"})
    assert Cluster.connect(str(server.kubeconfig(tmp_path / auth, auth=auth))).read("olm", "demo").data == {"a": "b"}
    assert server.requests[-1].user == user


def test_a_user_that_the_cluster_does_not_know(server: ApiServer, tmp_path: Path) -> None:
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
def test_a_file_that_is_no_kubeconfig(content: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(ClusterError, match=f"invalid kubeconfig {path}: .*{problem}"):
        Cluster.connect(str(path))


def test_no_cluster_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match="no such file"):
        Cluster.connect(str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterError, match="not running in a pod") as failure:
        Cluster.connect()
    assert "kubeconfig" in str(failure.value.hint)


def test_a_server_that_is_not_there_or_not_trusted(server: ApiServer, tmp_path: Path) -> None:
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
def test_a_server_that_is_something_else(
    status: int, body: bytes, problem: str, server: ApiServer, tmp_path: Path
) -> None:
    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server names it)
            self.answer(status, body, {"Content-Type": "application/json"})

    with WebServer(Handler) as other, pytest.raises(ClusterError, match=problem):
        Cluster.connect(str(server.kubeconfig(tmp_path / "k", server=f"http://{other.host}"))).read("olm", "demo")
