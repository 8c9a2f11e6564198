"""Installation of OLM itself in a cluster; OLM's operators are only simulated."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from opmkit.author.install.install import RELEASE_ANNOTATION
from opmkit.author.install.release import Release, parse_release
from opmkit.kube import Cluster as Client
from opmkit.kube import Resource, api
from tests.cluster.state import cluster_state
from tests.kit.cluster.cluster import OPERATORS
from tests.kit.cluster.programs import custom_resource_definitions
from tests.kit.forkserver import Command
from tests.kit.olm_release import RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.kube import Object
    from tests.kit.cluster.cluster import Cluster
    from tests.kit.forkserver import ForkServer
    from tests.kit.opm import Opm

OPERATOR_SDK = os.environ.get("OPMKIT_REFERENCE_OPERATOR_SDK", "")
EMBEDDED = "0.27.0"
"""The newest release that operator-sdk 1.42.3 contains; it downloads others."""
PACKAGE_SERVER = f"{OPERATORS}/namespaces/olm/clusterserviceversions/packageserver"


@pytest.fixture
def release(tmp_path: Path) -> str:
    """Return a directory with the CRDs of OLM, and the objects of the stand-in."""
    directory = tmp_path / "release"
    directory.mkdir()
    definitions = b"\n---\n".join(path.read_bytes() for path in custom_resource_definitions())
    (directory / "crds.yaml").write_bytes(definitions)
    (directory / "olm.yaml").write_bytes((RELEASE / "olm.yaml").read_bytes())
    return str(directory)


@pytest.fixture
def olm_operator(empty_cluster: Cluster) -> Iterator[None]:
    """Install the package server as soon as its ClusterServiceVersion exists."""
    client, stopping = empty_cluster.client, threading.Event()

    def install() -> None:
        while not stopping.wait(0.2):
            csv = client.find(PACKAGE_SERVER)
            if csv and not csv.get("status"):
                (deployment,) = csv["spec"]["install"]["spec"]["deployments"]
                names = {"apiVersion": "apps/v1", "kind": "Deployment"}
                client.apply(
                    {**names, "metadata": {"name": "packageserver", "namespace": "olm"}, "spec": deployment["spec"]}
                )
                times = dict.fromkeys(("lastUpdateTime", "lastTransitionTime"), "2026-01-01T00:00:00Z")
                client.patch(f"{PACKAGE_SERVER}/status", {"status": {"phase": "Succeeded", **times}})

    thread = threading.Thread(target=install, daemon=True)
    thread.start()
    yield
    stopping.set()
    thread.join()


@pytest.mark.usefixtures("olm_operator")
def test_release_is_installed_and_removed(empty_cluster: Cluster, release: str, opm: Opm) -> None:
    opm = replace(opm, env={"KUBECONFIG": str(empty_cluster.kubeconfig)})
    installed = opm("olm", "install", "--from", release)
    assert opm("olm", "status", "--from", release) == installed
    assert opm.attempt("olm", "install", "--from", release).returncode == 1
    assert "Deleted" in opm("olm", "uninstall", "--from", release)
    assert empty_cluster.client.find("/api/v1/namespaces/olm") is None
    assert empty_cluster.client.list("/apis/apiextensions.k8s.io/v1/customresourcedefinitions") == []


@pytest.mark.usefixtures("olm_operator")
def test_failed_installation_is_continued(empty_cluster: Cluster, release: str, opm: Opm) -> None:
    opm = replace(opm, env={"KUBECONFIG": str(empty_cluster.kubeconfig)})
    manifests = Path(release, "olm.yaml")
    valid = manifests.read_text()
    manifests.write_text(valid.replace("replicas: 1", "replicas: -1"))
    failed = opm.attempt("olm", "install", "--from", release)
    assert (failed.returncode, "run the command again to continue" in failed.stderr) == (1, True), failed.stderr
    manifests.write_text(valid)
    assert "Installed" in opm("olm", "install", "--from", release)


@pytest.mark.usefixtures("olm_operator")
def test_killed_installation_is_continued(
    empty_cluster: Cluster, release: str, opm: Opm, forkserver: ForkServer
) -> None:
    """Kill the command after the CRDs and after each other object but the last; each attempt continues the last one."""
    opm = replace(opm, env={"KUBECONFIG": str(empty_cluster.kubeconfig)})
    install = ("olm", "install", "--from", release)
    files = {path.name: path.read_bytes() for path in sorted(Path(release).iterdir())}
    parsed = parse_release(files, release)
    for number in (1, *range(len(parsed.definitions), len(parsed.objects))):
        killed_at = ("opmkit.core.interrupts.record_update", number)
        command = Command(install, opm.env, opm.directory, killed_at=killed_at)
        (killed,) = forkserver.run([command])
        assert killed.status == -signal.SIGKILL, killed.stderr
    done = opm.attempt(*install)
    assert done.returncode == 0, done.stderr
    assert f"continuing an incomplete installation with {len(parsed.objects) - 1} existing objects" in done.stderr
    assert opm("olm", "status", "--from", release) == done.stdout


def test_objects_of_others_are_not_changed(empty_cluster: Cluster, release: str, opm: Opm) -> None:
    """Objects without fields look the same, whoever created them."""
    opm = replace(opm, env={"KUBECONFIG": str(empty_cluster.kubeconfig)})
    empty_cluster.create_namespace("olm")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "olm-operator", "namespace": "olm"}}
    empty_cluster.client.apply(account)
    before = cluster_state(empty_cluster.client)
    done = opm.attempt("olm", "install", "--from", release)
    assert done.returncode == 1
    assert "detected existing OLM resources" in done.stderr
    assert "Namespace olm, ServiceAccount olm/olm-operator" in done.stderr
    assert cluster_state(empty_cluster.client) == before


@pytest.mark.skipif(not OPERATOR_SDK, reason="set OPMKIT_REFERENCE_OPERATOR_SDK to the path of operator-sdk 1.42.3")
@pytest.mark.usefixtures("olm_operator")
def test_objects_equal_those_of_operator_sdk(empty_cluster: Cluster, opm: Opm, tmp_path: Path) -> None:
    env = {"KUBECONFIG": str(empty_cluster.kubeconfig)}
    opm, client = replace(opm, env=env), Client.connect(str(empty_cluster.kubeconfig))
    install = [OPERATOR_SDK, "olm", "install", "--version", EMBEDDED]
    done = subprocess.run(install, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    created = [line.split() for line in done.stdout.splitlines() if line.endswith("Installed")]
    theirs = [_read(empty_cluster, words[-2], words[0], words[1:-2]) for words in created]
    (tmp_path / "release.yaml").write_text(yaml.safe_dump_all(theirs))
    release = parse_release({"release.yaml": (tmp_path / "release.yaml").read_bytes()}, "release")
    assert len(release.objects) == len(created) > 20
    opm("olm", "status", "--from", "release.yaml")
    opm("olm", "uninstall", "--from", "release.yaml")
    opm("olm", "install", "--from", "release.yaml")
    assert _stored(client, release) == [_wanted(each) for each in release.objects]


def _read(cluster: Cluster, kind: str, name: str, namespace: list[str]) -> Object:
    client = Client.connect(str(cluster.kubeconfig))
    known = {each.kind: each for each in vars(api).values() if isinstance(each, Resource)}
    return _wanted(client.get(known[kind], name, *namespace))


def _stored(client: Client, release: Release) -> list[Object]:
    return [_wanted(release.find(client, each) or {}) for each in release.objects]


def _wanted(obj: Object) -> Object:
    """Return what a client has set in an object."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _ASSIGNED}
    annotations = metadata.get("annotations", {})
    for assigned in ("deployment.kubernetes.io/revision", RELEASE_ANNOTATION):
        annotations.pop(assigned, None)
    metadata = {key: value for key, value in metadata.items() if value}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


_ASSIGNED = {"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "finalizers"}
