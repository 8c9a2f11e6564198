"""Failures of ``opm run`` and ``opm cleanup`` with OLM in a cluster: reason, remaining objects, and hint."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.cluster.failures import fail, time_out
from tests.cluster.state import cluster_state, wait_for_state
from tests.kit.cluster.control_plane import LIMITED_TOKEN, LIMITED_USER
from tests.kit.cluster.operators import SampleOperator, with_fault

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.cluster.cluster import Cluster
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry


def run(opm: Opm, image: str, *flags: str) -> str:
    """Fail to run a bundle and return the messages."""
    return fail(opm, "run", "bundle", image, "--use-http", *flags)


@pytest.fixture
def private(basic_registry: Registry, operator: SampleOperator) -> SampleOperator:
    """Return an operator whose bundle images require a login."""
    return replace(operator, repository=f"{basic_registry.host}/{operator.name}/bundle")


@pytest.fixture
def auth_file(basic_registry: Registry, tmp_path: Path) -> Path:
    """Return the credentials for the bundle images."""
    path = tmp_path / "auth.json"
    login = base64.b64encode(b"tester:secret").decode()
    path.write_text(json.dumps({"auths": {basic_registry.host: {"auth": login}}}))
    return path


def test_missing_image_is_reported_before_anything_is_created(
    cluster: Cluster, namespace: str, kube_opm: Opm, operator: SampleOperator
) -> None:
    before = cluster_state(cluster.client)
    assert f"{operator.image('0.1.0')}: not found in the registry" in run(kube_opm, operator.image("0.1.0"))
    assert cluster_state(cluster.client) == before


def test_image_that_the_cluster_cannot_pull_is_reported_with_the_answer_of_the_registry(
    cluster: Cluster, namespace: str, kube_opm: Opm, private: SampleOperator, opm_http: Opm, auth_file: Path
) -> None:
    login = ("--authfile", str(auth_file))
    image = private.build(replace(opm_http, flags=(*opm_http.flags, *login)), "0.1.0")
    before = cluster_state(cluster.client)
    causes = (f'ImagePullBackOff: Back-off pulling image "{image}"', "401 Unauthorized")
    failure = time_out(kube_opm, private.package, "run", "bundle", image, "--use-http", *login, causes=causes)
    assert "timed out after" in failure
    assert f"remaining objects: CatalogSource {namespace}/{private.package}-catalog" in failure
    assert f"run 'opm cleanup' for package {private.package}" in failure

    kube_opm("cleanup", private.package)
    wait_for_state(cluster.client, before)

    secret = {".dockerconfigjson": base64.b64encode(auth_file.read_bytes()).decode()}
    manifest = {"kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "metadata": {"name": "pull"}}
    cluster.client.post(f"/api/v1/namespaces/{namespace}/secrets", {"apiVersion": "v1", **manifest, "data": secret})
    kube_opm("run", "bundle", image, "--use-http", *login, "--pull-secret-name", "pull")


def test_missing_dependency_is_reported_in_the_words_of_the_resolver(
    kube_opm: Opm, operator: SampleOperator, opm_http: Opm
) -> None:
    dependency = "dependencies: [{type: olm.package, value: {packageName: absent-operator, version: '>=1.0.0'}}]\n"
    image = operator.build(opm_http, "0.1.0", more={"metadata/dependencies.yaml": dependency})
    failure = run(kube_opm, image)
    assert "OLM cannot resolve the dependencies of the namespace" in failure
    assert f"ConstraintsNotSatisfiable: constraints not satisfiable: bundle {operator.csv('0.1.0')} requires" in failure
    assert "an operator with package: absent-operator and with version in range: >=1.0.0" in failure


def test_second_owner_of_a_crd_is_reported(kube_opm: Opm, operator: SampleOperator, opm_http: Opm) -> None:
    kube_opm("run", "bundle", operator.build(opm_http, "0.1.0"), "--use-http")
    rival = SampleOperator(operator.name, f"{operator.repository}-rival", operator.directory / "rival", prefix="rival-")
    failure = run(kube_opm, rival.build(opm_http, "0.1.0"))
    assert f"provide {operator.kind} ({operator.group}/v1alpha1)" in failure
    kube_opm("cleanup", rival.package)
    again = run(kube_opm, operator.image("0.1.0"))
    assert f"package {operator.package}: already exists" in again
    assert f"{operator.csv('0.1.0')} is installed" in again


def test_incompatible_crd_of_another_owner_is_reported_by_the_install_plan(
    cluster: Cluster, kube_opm: Opm, operator: SampleOperator, opm_http: Opm
) -> None:
    image = operator.build(opm_http, "0.1.0")
    crd = operator.read("0.1.0", "lagoons.water.example.com.crd.yaml")
    crd["spec"]["versions"][0]["name"] = "v1"  # the stored version, which the bundle does not have
    cluster.client.apply(crd)
    failure = run(kube_opm, image)
    assert re.search(r"not installed: InstallPlan \S+ failed: .*risk of data loss", failure)
    assert f"{crd['metadata']['name']}" in failure


def test_deployment_that_crashes_is_reported_with_the_state_of_its_container(
    cluster: Cluster, namespace: str, kube_opm: Opm, operator: SampleOperator, opm_http: Opm
) -> None:
    image = operator.build(opm_http, "0.1.0", with_fault("CrashLoopBackOff"))
    before = cluster_state(cluster.client)
    causes = (f'deployment "{operator.package}" not available', "container manager: CrashLoopBackOff: ")
    failure = time_out(kube_opm, operator.package, "run", "bundle", image, "--use-http", causes=causes)
    assert re.search(rf"Pod {namespace}/{operator.package}-\S+, container manager: CrashLoopBackOff: ", failure)
    assert "Error: exit code 1: simulated failure" in failure
    assert f"ClusterServiceVersion {namespace}/{operator.csv('0.1.0')}" in failure.partition("remaining objects: ")[2]
    kube_opm("cleanup", operator.package)
    wait_for_state(cluster.client, before)


def test_invalid_requests_are_rejected_before_anything_is_created(
    cluster: Cluster, namespace: str, kube_opm: Opm, operator: SampleOperator, opm_http: Opm
) -> None:
    image = operator.build(opm_http, "0.1.0")
    before = cluster_state(cluster.client)
    assert "install mode MultiNamespace unsupported" in run(kube_opm, image, "--install-mode", "MultiNamespace=a,b")
    assert "namespace absent: not found" in run(kube_opm, image, "-n", "absent")
    failure = fail(kube_opm, "run", "bundle-upgrade", image, "--use-http")
    assert f"package {operator.package}: not installed in namespace {namespace}" in failure
    assert "install it with 'opm run bundle'" in failure
    assert cluster_state(cluster.client) == before


def test_missing_service_account_is_reported(kube_opm: Opm, operator: SampleOperator, opm_http: Opm) -> None:
    failure = run(kube_opm, operator.build(opm_http, "0.1.0"), "--service-account", "absent")
    assert 'serviceaccount "absent" not found' in failure
    kube_opm("cleanup", operator.package)


@pytest.mark.parametrize("command", ["run", "cleanup"])
def test_missing_permission_is_reported_with_verb_and_resource(
    command: str, cluster: Cluster, namespace: str, kube_opm: Opm, operator: SampleOperator, opm_http: Opm
) -> None:
    path = kube_opm.directory / "limited"
    kubeconfig = cluster.write_kubeconfig(path, token=LIMITED_TOKEN, namespace=namespace)
    limited = replace(kube_opm, env={"KUBECONFIG": str(kubeconfig)})
    if command == "run":
        failure = run(limited, operator.build(opm_http, "0.1.0"))
    else:
        failure = fail(limited, "cleanup", operator.package)
    assert f'User "{LIMITED_USER}" cannot list resource "subscriptions"' in failure
    assert f'in the namespace "{namespace}"' in failure
    assert "with a Role and a RoleBinding" in failure


def test_timeout_of_an_upgrade_retains_the_installed_version(
    cluster: Cluster, namespace: str, kube_opm: Opm, operator: SampleOperator, opm_http: Opm
) -> None:
    first, second = operator.build(opm_http, "0.1.0"), operator.build(opm_http, "0.2.0")
    before = cluster_state(cluster.client)
    kube_opm("run", "bundle", first, "--use-http")
    failure = fail(kube_opm, "run", "bundle-upgrade", second, "--use-http", "--timeout", "2s")
    assert f"{operator.csv('0.1.0')}: not upgraded to {operator.csv('0.2.0')}: timed out after 2s" in failure
    csv = f"/apis/operators.coreos.com/v1alpha1/namespaces/{namespace}/clusterserviceversions/{operator.csv('0.1.0')}"
    assert cluster.client.get(csv)["status"]["phase"] == "Succeeded"
    kube_opm("cleanup", operator.package)
    wait_for_state(cluster.client, before)


@pytest.mark.parametrize("step", ["Subscription", "InstallPlan"])
def test_interruption_reports_what_was_created(
    step: str, cluster: Cluster, namespace: str, kube_opm: Opm, operator: SampleOperator, opm_http: Opm
) -> None:
    """OLM continues with an approved InstallPlan, also while ``cleanup`` removes what it has created."""
    image = operator.build(opm_http, "0.1.0")
    before = cluster_state(cluster.client)
    argv, env = kube_opm.argv("run", "bundle", image, "--use-http"), {**os.environ, **kube_opm.env}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith(f"{step} "):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, failure = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "interrupted by SIGTERM" in failure
    assert f"Subscription {namespace}/" in failure
    assert f"run 'opm cleanup {operator.package} --namespace {namespace}' to remove the objects" in failure
    kube_opm("cleanup", operator.package)
    wait_for_state(cluster.client, before)


def test_unreachable_cluster_is_reported(cluster: Cluster, kube_opm: Opm, operator: SampleOperator) -> None:
    path = kube_opm.directory / "unreachable"
    path.write_text(cluster.kubeconfig.read_text().replace(cluster.url, "https://127.0.0.1:1"))
    failure = fail(kube_opm, "cleanup", operator.package, "--kubeconfig", str(path))
    assert "127.0.0.1:1" in failure
    assert "refused" in failure


def test_cluster_without_olm_is_reported(
    empty_cluster: Cluster, opm: Opm, operator: SampleOperator, opm_http: Opm
) -> None:
    image = operator.build(opm_http, "0.1.0")
    before = cluster_state(empty_cluster.client)
    opm = replace(opm, env={"KUBECONFIG": str(empty_cluster.kubeconfig)})
    for failure in (run(opm, image), fail(opm, "cleanup", operator.package)):
        assert f"OLM is not installed in the cluster {empty_cluster.url}" in failure
        assert "opm olm install" in failure
    assert cluster_state(empty_cluster.client) == before
