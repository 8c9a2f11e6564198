"""``opm olm`` with an API server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.kit.apiserver import ApiServer
from tests.kit.bundles import push_image
from tests.kit.images import small_image
from tests.kit.olm_release import RELEASE, add_controllers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as started:
        add_controllers(started)
        yield started


@pytest.fixture
def on_cluster(opm: Opm, server: ApiServer, tmp_path: Path) -> Opm:
    """Return the command with a kubeconfig."""
    return replace(opm, env={"KUBECONFIG": str(server.kubeconfig(tmp_path / "kubeconfig"))})


def test_release_is_installed_checked_and_removed(on_cluster: Opm, server: ApiServer) -> None:
    source = ("--from", str(RELEASE))
    done = on_cluster.attempt("olm", "install", *source)
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert header.split() == ["NAME", "NAMESPACE", "KIND", "STATUS"]
    assert "packageserver" in rows[-1]
    assert all(row.endswith("  Installed") for row in rows)
    assert "Deployment olm/olm-operator rolled out\n" in done.stderr

    again = on_cluster.attempt("olm", "install", *source)
    assert again.returncode == 1
    assert again.stderr.startswith(f"Error: OLM is already installed in the cluster https://{server.host}: 1.2.3\n")
    assert "'opm olm uninstall'" in again.stderr

    assert on_cluster("olm", "status", *source).splitlines() == [header, *rows]
    server.remove("ServiceAccount", "olm-operator", "olm")
    broken = on_cluster.attempt("olm", "status", *source, "--output", "json")
    assert broken.returncode == 1
    assert "Error: OLM is incomplete: 1 of 11 objects missing or not ready" in broken.stderr
    report = json.loads(broken.stdout)
    assert (report["version"], report["namespace"]) == ("1.2.3", "olm")
    assert [each["name"] for each in report["objects"] if not each["ready"]] == ["olm-operator"]

    other = on_cluster.attempt("olm", "uninstall", *source, "--version", "1.0.0")
    assert (other.returncode, other.stderr) == (1, "Error: OLM 1.2.3 is installed, not 1.0.0\n")
    removed = on_cluster("olm", "uninstall", *source)
    assert all(row.endswith("  Deleted") for row in removed.splitlines()[1:])
    assert server.objects("CustomResourceDefinition") == []
    missing = on_cluster.attempt("olm", "status")
    assert missing.returncode == 1
    assert "Error: OLM is not installed in namespace olm of the cluster" in missing.stderr


def test_release_in_an_image(on_cluster: Opm, registry: Registry, server: ApiServer, tmp_path: Path) -> None:
    files = {f"manifests/{path.name}": path.read_bytes() for path in sorted(RELEASE.iterdir())}
    name = push_image(f"{registry.host}/olm/release:1", small_image(tmp_path, files))
    assert "packageserver" in on_cluster("olm", "install", "--from", name, "--use-http")
    assert server.get("ClusterServiceVersion", "packageserver", "olm")["spec"]["version"] == "1.2.3"


def test_failures_are_explained(on_cluster: Opm, server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "notes.yaml").write_text("- hello\n")
    done = on_cluster.attempt("olm", "install", "--from", "notes.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: notes.yaml:1: not a Kubernetes object: apiVersion: missing or not a string\n"

    server.fail("patch", "deployments", status=403, message="deployments.apps is forbidden: cannot patch \x1b[31m")
    done = on_cluster.attempt("olm", "install", "--from", str(RELEASE))
    assert done.returncode == 1
    assert "Error: OLM not installed: Deployment olm/olm-operator: deployments.apps is forbidden" in done.stderr
    assert "created objects: CustomResourceDefinition clusterserviceversions.operators.coreos.com, " in done.stderr
    assert "hint: grant the user or service account the permission with a Role and a RoleBinding" in done.stderr
    assert "\x1b" not in done.stderr

    assert "run the command again to continue" in done.stderr
    continued = on_cluster.attempt("olm", "install", "--from", str(RELEASE))
    assert (continued.returncode, "continuing an incomplete installation" in continued.stderr) == (0, True)

    done = on_cluster.attempt("olm", "install", "--from", str(RELEASE), "--context", "none")
    assert "context 'none' does not exist" in done.stderr
    assert "choose one of its contexts: test" in done.stderr
