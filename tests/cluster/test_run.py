"""``opm run`` and ``opm cleanup`` with OLM on a real API server; in tests/e2e/test_run.py, OLM is scripted."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cluster.failures import time_out
from tests.kit.cluster.client import PATIENCE
from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.cluster.cluster import Cluster
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

PACKAGE = "lagoon-operator"
FIRST, SECOND = f"{PACKAGE}.v0.1.0", f"{PACKAGE}.v0.2.0"
OPERATOR_SDK = os.environ.get("OPMKIT_REFERENCE_OPERATOR_SDK", "")
PATIENT = ("--timeout", "4m")
_OLM = "/apis/operators.coreos.com"
_NAMESPACED = (
    *("/api/v1 pods", "/api/v1 configmaps", "/api/v1 services", "/api/v1 serviceaccounts", "/apis/apps/v1 deployments"),
    *("/apis/batch/v1 jobs", f"{_OLM}/v1alpha1 catalogsources", f"{_OLM}/v1alpha1 subscriptions"),
    *(f"{_OLM}/v1alpha1 installplans", f"{_OLM}/v1alpha1 clusterserviceversions", f"{_OLM}/v1 operatorgroups"),
    *(f"/apis/rbac.authorization.k8s.io/v1 {plural}" for plural in ("roles", "rolebindings")),
)
_OF_THE_CLUSTER = (
    *(f"/apis/rbac.authorization.k8s.io/v1/{plural}" for plural in ("clusterroles", "clusterrolebindings")),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    f"{_OLM}/v1/operators",
)


@dataclass(frozen=True)
class Workspace:
    """A namespace of a cluster, and commands that use it."""

    cluster: Cluster
    namespace: str
    opm: Opm

    def _is_own(self, path: str, name: str) -> bool:
        if path.endswith("/operators"):
            return name.startswith(PACKAGE) and name.endswith(self.namespace[-10:])
        return "lagoon" in name or "tides" in name

    def check_objects(self, image: str, index: str) -> None:
        """Check the objects that both opm and operator-sdk create for the first version."""
        client, parent = self.cluster.client, f"{_OLM}/v1alpha1/namespaces/{self.namespace}"
        subscription = client.find(f"{parent}/subscriptions/lagoon-operator-v0-1-0-sub")
        source = client.find(f"{parent}/catalogsources/lagoon-operator-catalog")
        group = client.find(f"{_OLM}/v1/namespaces/{self.namespace}/operatorgroups/operator-sdk-og")
        assert subscription
        assert source
        assert group
        assert subscription["spec"] == {
            "name": PACKAGE,
            "channel": "operator-sdk-run-bundle",
            "source": "lagoon-operator-catalog",
            "sourceNamespace": self.namespace,
            "startingCSV": FIRST,
            "installPlanApproval": "Manual",
        }
        assert group["spec"] == {"upgradeStrategy": "Default"}
        annotations = source["metadata"]["annotations"]
        prefix = "operators.operatorframework.io"
        assert annotations.keys() >= {f"{prefix}/registry-pod-name"}
        assert annotations[f"{prefix}/index-image"] == index
        assert json.loads(annotations[f"{prefix}/injected-bundles"]) == [{"imageTag": image, "mode": "replaces"}]
        assert source["spec"]["displayName"] == PACKAGE
        assert source["spec"]["grpcPodConfig"]["securityContextConfig"] == "legacy"

    def remaining(self) -> list[str]:
        """Return the objects that still exist after the garbage collector had time to remove those without an owner."""
        deadline = time.monotonic() + PATIENCE
        while (found := self._objects()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    def _objects(self) -> list[str]:
        """Return the objects of the namespace, and those of the cluster that belong to the sample operator."""
        client = self.cluster.client
        found = []
        for entry in _NAMESPACED:
            prefix, plural = entry.split()
            objects = client.list(f"{prefix}/namespaces/{self.namespace}/{plural}")
            found += [f"{plural} {each['metadata']['name']}" for each in objects]
        for path in _OF_THE_CLUSTER:
            names = [each["metadata"]["name"] for each in client.list(path)]
            found += [f"{path} {name}" for name in names if self._is_own(path, name)]
        return [each for each in found if each not in ("serviceaccounts default", "configmaps kube-root-ca.crt")]


@pytest.fixture
def workspace(cluster: Cluster, namespace: str, kube_opm: Opm) -> Workspace:
    return Workspace(cluster, namespace, kube_opm)


def copy_bundle(version: str, target: Path) -> None:
    shutil.copytree(LAGOON / version / "manifests", target / "manifests")
    shutil.copytree(LAGOON / "0.1.0" / "metadata", target / "metadata")


def push(opm: Opm, host: str, version: str, *flags: str) -> str:
    image = f"{host}/run/lagoon:{version}"
    replace(opm, flags=flags).build_bundle(version, image, "--push", "--overwrite")
    return image


def test_image_is_installed_upgraded_and_removed(workspace: Workspace, registry: Registry) -> None:
    opm = replace(workspace.opm, flags=("--use-http",))
    first, second = (push(opm, registry.host, version, "--use-http") for version in ("0.1.0", "0.2.0"))
    assert opm("run", "bundle", first, *PATIENT).startswith(f"{FIRST} installed in namespace")
    result = json.loads(opm("run", "bundle-upgrade", second, "-o", "json", *PATIENT))
    assert (result["csv"], result["replaced"]) == (SECOND, FIRST)
    removed = json.loads(workspace.opm("cleanup", PACKAGE, "-o", "json"))
    assert {each["result"] for each in removed["objects"]} == {"deleted"}
    assert workspace.remaining() == []


def test_directory_is_installed_in_its_own_namespace(workspace: Workspace) -> None:
    copy_bundle("0.1.0", workspace.opm.directory / "bundle")
    flags = ("--install-mode", "OwnNamespace", "--security-context-config", "restricted", "-o", "json", *PATIENT)
    result = json.loads(workspace.opm("run", "bundle", "./bundle", *flags))
    assert result["watched_namespaces"] == [workspace.namespace]
    workspace.opm("cleanup", PACKAGE, *PATIENT)
    assert workspace.remaining() == []


def package_documents(name: str) -> list[dict[str, object]]:
    """Return a package with 600 kB that cannot be compressed."""
    icon = {"base64data": base64.b64encode(os.urandom(600_000)).decode(), "mediatype": "image/png"}
    version = {"type": "olm.package", "value": {"packageName": name, "version": "1.0.0"}}
    bundle = {"name": f"{name}.v1", "package": name, "image": "registry.example.com/other:1"}
    return [
        {"schema": "olm.package", "name": name, "defaultChannel": "a", "icon": icon},
        {"schema": "olm.channel", "name": "a", "package": name, "entries": [{"name": f"{name}.v1"}]},
        {"schema": "olm.bundle", **bundle, "properties": [version]},
    ]


def test_catalog_of_several_config_maps(workspace: Workspace) -> None:
    """An index with random text does not fit into one ConfigMap, so its parts are compressed."""
    copy_bundle("0.1.0", workspace.opm.directory / "bundle")
    index = workspace.opm.directory / "index"
    index.mkdir()
    documents = [document for number in range(3) for document in package_documents(f"other{number}")]
    (index / "index.yaml").write_text(yaml.safe_dump_all(documents))
    workspace.opm("run", "bundle", "./bundle", "--index-image", "index", *PATIENT)
    maps = workspace.cluster.client.list(f"/api/v1/namespaces/{workspace.namespace}/configmaps")
    assert sum(each["metadata"]["name"].startswith(f"{PACKAGE}-catalog-") for each in maps) > 1
    workspace.opm("cleanup", PACKAGE, *PATIENT)
    assert workspace.remaining() == []


def test_package_manifests_are_installed(workspace: Workspace) -> None:
    directory = workspace.opm.directory / "packagemanifests"
    for version in ("0.1.0", "0.2.0"):
        shutil.copytree(LAGOON / version / "manifests", directory / version)
    (directory / "package.yaml").write_text(
        f"packageName: {PACKAGE}\nchannels:\n- {{name: stable, currentCSV: {SECOND}}}\n"
    )
    assert f"{FIRST} installed" in workspace.opm("run", "packagemanifests", "--version", "0.1.0", *PATIENT)
    workspace.opm("cleanup", PACKAGE, *PATIENT)
    assert workspace.remaining() == []


def break_deployment(bundle: Path) -> None:
    path = bundle / "manifests" / "lagoon-operator.clusterserviceversion.yaml"
    csv = yaml.safe_load(path.read_bytes())
    pod = csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]
    pod["containers"][0]["env"] = [{"name": "SIMULATED_FAULT", "value": "CreateContainerConfigError"}]
    path.write_text(yaml.safe_dump(csv))


def require_missing_package(bundle: Path) -> None:
    (bundle / "metadata" / "dependencies.yaml").write_text(
        "dependencies:\n- type: olm.package\n  value: {packageName: missing, version: '>=1.0.0'}\n"
    )


@pytest.mark.parametrize(
    ("breakage", "causes"),
    [
        (
            break_deployment,
            ["to be installed", "MinimumReplicasUnavailable", "container manager: CreateContainerConfigError"],
        ),
        (
            require_missing_package,
            ["ConstraintsNotSatisfiable", "requires an operator with package: missing", "with --index-image"],
        ),
        (None, ["OLM to unpack ", "container pull: ", "missing:1: not found", "with --pull-secret-name"]),
    ],
    ids=["deployment", "dependency", "image"],
)
def test_failure_is_explained_and_removed(
    breakage: object, causes: list[str], workspace: Workspace, registry: Registry
) -> None:
    bundle = workspace.opm.directory / "bundle"
    copy_bundle("0.1.0", bundle)
    source = "./bundle"
    if callable(breakage):
        breakage(bundle)
    else:
        source += f"={registry.host}/missing:1"
    time_out(workspace.opm, PACKAGE, "run", "bundle", source, causes=causes)
    workspace.opm("cleanup", PACKAGE, *PATIENT)
    assert workspace.remaining() == []


def test_namespace_with_restricted_pods(workspace: Workspace) -> None:
    copy_bundle("0.1.0", workspace.opm.directory / "bundle")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    workspace.cluster.client.patch(f"/api/v1/namespaces/{workspace.namespace}", {"metadata": {"labels": labels}})
    done = workspace.opm.attempt("run", "bundle", "./bundle")
    assert done.returncode == 1
    assert 'violates PodSecurity "restricted' in done.stderr
    assert "use --security-context-config restricted" in done.stderr
    workspace.opm("cleanup", PACKAGE)

    flags = ("--security-context-config", "restricted")
    cause = "ReplicaFailure: FailedCreate: pods "
    failure = time_out(workspace.opm, PACKAGE, "run", "bundle", "./bundle", *flags, causes=[cause])
    assert "connected to" in failure  # the pod of the catalog runs, that of the operator does not
    workspace.opm("cleanup", PACKAGE)
    assert workspace.remaining() == []


def test_missing_permission_names_verb_and_resource(workspace: Workspace) -> None:
    from tests.kit.cluster.control_plane import LIMITED_TOKEN

    copy_bundle("0.1.0", workspace.opm.directory / "bundle")
    path = workspace.opm.directory / "limited"
    kubeconfig = workspace.cluster.write_kubeconfig(path, token=LIMITED_TOKEN, namespace=workspace.namespace)
    done = workspace.opm.attempt("run", "bundle", "./bundle", "--kubeconfig", str(kubeconfig))
    assert done.returncode == 1
    assert 'User "limited" cannot list resource "subscriptions" in API group "operators.coreos.com"' in done.stderr


@pytest.mark.skipif(not OPERATOR_SDK, reason="set OPMKIT_REFERENCE_OPERATOR_SDK to the path of operator-sdk 1.42.3")
@pytest.mark.parametrize("first", ["opm", "operator-sdk"])
def test_operator_sdk_and_opm_alternate(first: str, tls_registry: Registry, workspace: Workspace) -> None:
    host, ca_file = tls_registry.host, str(tls_registry.ca_file)
    workspace.cluster.kubelet.authorities[host] = tls_registry.ca_file
    opm = replace(workspace.opm, flags=("--ca-file", ca_file))
    images = [push(opm, host, version, "--ca-file", ca_file) for version in ("0.1.0", "0.2.0")]
    index = f"{host}/run/index:1"
    opm("index", "add", "-b", "", "--to-fbc", "-i", "scratch", "-t", index, "--push")

    def operator_sdk(*arguments: str) -> None:
        env = {**os.environ, **workspace.opm.env, "SSL_CERT_FILE": ca_file, "HOME": str(workspace.opm.directory)}
        done = subprocess.run(
            [OPERATOR_SDK, *arguments, "--namespace", workspace.namespace, *PATIENT],
            env=env,
            cwd=workspace.opm.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    install = ("run", "bundle", images[0], "--index-image", index)
    upgrade = ("run", "bundle-upgrade", images[1])
    if first == "opm":
        opm(*install, *PATIENT)
        workspace.check_objects(images[0], index)
        operator_sdk(*upgrade)
    else:
        operator_sdk(*install)
        workspace.check_objects(images[0], index)
        assert opm(*upgrade, *PATIENT).startswith(f"{FIRST} upgraded to {SECOND}")
    csv = f"{_OLM}/v1alpha1/namespaces/{workspace.namespace}/clusterserviceversions/{SECOND}"
    assert workspace.cluster.client.find(csv)["status"]["phase"] == "Succeeded"  # type: ignore[index]
    if first == "opm":
        workspace.opm("cleanup", PACKAGE, *PATIENT)
    else:
        operator_sdk("cleanup", PACKAGE)
        for path in ("/apis/rbac.authorization.k8s.io/v1/clusterroles/lagoon-viewer",):
            workspace.cluster.client.delete(path)  # which operator-sdk leaves behind
        workspace.cluster.client.delete(f"{_OLM}/v1/operators/{PACKAGE}.{workspace.namespace}")
    assert workspace.remaining() == []
