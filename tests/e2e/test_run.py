"""``opm run`` and ``opm cleanup`` with an API server in memory, on which OLM is scripted.

tests/cluster/test_run.py runs the same commands with the real OLM.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.apiserver import ApiServer
from tests.kit.olm import Failures, ScriptedOlm
from tests.kit.opm import LAGOON, PROGRAM
from tests.kit.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

PACKAGE = "lagoon-operator"
FIRST, SECOND = f"{PACKAGE}.v0.1.0", f"{PACKAGE}.v0.2.0"
KINDS = (
    *("CatalogSource", "Subscription", "InstallPlan", "ClusterServiceVersion", "OperatorGroup", "Operator"),
    *("Pod", "ConfigMap", "Deployment", "Service", "CustomResourceDefinition", "ClusterRole"),
)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(namespaces=("ns",), olm=True) as started:
        yield started


@pytest.fixture
def olm(server: ApiServer) -> ScriptedOlm:
    return ScriptedOlm(server)


@pytest.fixture
def run(opm: Opm, server: ApiServer, olm: ScriptedOlm, tmp_path: Path) -> Opm:
    """Return the command with a kubeconfig for the server, and the first version of the operator in ``first``."""
    copy_bundle("0.1.0", tmp_path / "first")
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    return replace(opm, flags=("--namespace", "ns"), env={"KUBECONFIG": str(kubeconfig)})


def copy_bundle(version: str, target: Path) -> None:
    shutil.copytree(LAGOON / version / "manifests", target / "manifests")
    shutil.copytree(LAGOON / "0.1.0" / "metadata", target / "metadata")


def remaining(server: ApiServer) -> dict[str, list[str]]:
    """Return the names of all objects by kind, except namespaces and Events."""
    known = [kind for kind in KINDS if kind != "CustomResourceDefinition" or server.objects(kind)]
    found = {kind: [each["metadata"]["name"] for each in server.objects(kind)] for kind in known}
    return {kind: names for kind, names in found.items() if names}


def push(opm: Opm, registry: Registry, version: str) -> str:
    """Build a bundle image in a repository of the test, and return its reference."""
    image = f"{registry.host}/run-{opm.directory.name.replace('_', '-')[:40].strip('-')}:{version}"
    replace(opm, flags=("--use-http",)).build_bundle(version, image, "--push", "--overwrite")
    return image


def test_bundle_image_is_installed_upgraded_and_removed(run: Opm, server: ApiServer, registry: Registry) -> None:
    first, second = push(run, registry, "0.1.0"), push(run, registry, "0.2.0")
    done = run.attempt("run", "bundle", first, "--use-http")
    assert (done.returncode, done.stdout) == (0, f"{FIRST} installed in namespace ns; it watches all namespaces\n")
    steps = ["CatalogSource lagoon-operator-catalog created", "InstallPlan install-2 approved", f"{FIRST} succeeded"]
    positions = [done.stderr.index(step) for step in steps]
    assert positions == sorted(positions)
    assert "waiting for" not in done.stderr.splitlines()[-1]
    source = server.get("CatalogSource", "lagoon-operator-catalog", "ns")
    recorded = source["metadata"]["annotations"]["operators.operatorframework.io/injected-bundles"]
    assert json.loads(recorded) == [{"imageTag": first, "mode": "semver"}]
    (former,) = server.objects("Pod")

    result = json.loads(run("run", "bundle-upgrade", second, "--use-http", "--output", "json"))
    assert (result["csv"], result["replaced"], result["watched_namespaces"]) == (SECOND, FIRST, [])
    assert [each["metadata"]["name"] for each in server.objects("ClusterServiceVersion")] == [SECOND]
    assert [pod["metadata"]["name"] for pod in server.objects("Pod")] != [former["metadata"]["name"]]
    assert len(server.objects("Pod")) == len(server.objects("ConfigMap")) == 1

    removed = json.loads(run("cleanup", PACKAGE, "--output", "json"))
    kinds = {each["kind"] for each in removed["objects"]}
    assert kinds >= {
        "Subscription",
        "ClusterServiceVersion",
        "CustomResourceDefinition",
        "CatalogSource",
        "ClusterRole",
    }
    assert {each["result"] for each in removed["objects"]} == {"deleted"}
    assert remaining(server) == {"Service": ["lagoon-operator-metrics"]}  # OLM and the garbage collector remove it


def test_bundle_directory_needs_no_registry(run: Opm, server: ApiServer) -> None:
    run("run", "bundle", "./first", "--install-mode", "OwnNamespace", "--security-context-config", "restricted")
    assert server.get("OperatorGroup", "operator-sdk-og", "ns")["spec"] == {"targetNamespaces": ["ns"]}
    (pod,) = server.objects("Pod")
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    copy_bundle("0.2.0", run.directory / "second")
    done = run.attempt("run", "bundle-upgrade", "./second", "--mode", "semver")
    assert done.stdout == f"{FIRST} upgraded to {SECOND} in namespace ns; it watches ns\n"
    assert "Warning: --mode is ignored" in done.stderr


def test_steps_and_waits_are_events_for_programs(run: Opm) -> None:
    for words, last in (
        (("run", "bundle", "./first"), f"{FIRST} succeeded"),
        (("cleanup", PACKAGE), ""),
    ):
        done = run.attempt(*words, "--progress", "json")
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in done.stderr.splitlines()]
        status = [event for event in events if "total" not in event]
        assert {event["event"] for event in status} <= {"finished", "waiting"}
        finished = [event for event in status if event["event"] == "finished"]
        assert last in finished[-1]["task"]
        assert [event["seconds"] for event in status] == sorted(event["seconds"] for event in status)
        assert "{" not in done.stdout


@pytest.mark.parametrize("kind", ["database", "catalog"])
def test_bundle_is_added_to_an_index(kind: str, run: Opm, server: ApiServer) -> None:
    opm = replace(run, flags=())
    opm("registry", "add", "--bundle-images", "./first", "--database", "index.db")
    index = "index.db"
    if kind == "catalog":
        index = "catalog"
        opm("migrate", "index.db", "catalog")
    copy_bundle("0.2.0", run.directory / "second")
    result = json.loads(run("run", "bundle", "./second", "--index-image", index, "-o", "json", "--serving-image", "x"))
    assert (result["csv"], result["channel"]) == (SECOND, "operator-sdk-run-bundle")
    (pod,) = server.objects("Pod")
    assert pod["spec"]["containers"][0]["image"] == "x"
    done = run.attempt("run", "bundle", "./first", "--index-image", index)
    assert done.returncode == 1
    assert "bundle lagoon-operator.v0.1.0 of package lagoon-operator: already exists in the catalog" in done.stderr


def test_package_manifests_are_installed(run: Opm, server: ApiServer) -> None:
    directory = run.directory / "packagemanifests"
    for version in ("0.1.0", "0.2.0"):
        shutil.copytree(LAGOON / version / "manifests", directory / version)
    (directory / "package.yaml").write_text(
        f"packageName: {PACKAGE}\nchannels:\n- {{name: stable, currentCSV: {SECOND}}}\n"
    )
    result = json.loads(run("run", "packagemanifests", "--version", "0.1.0", "-o", "json"))
    assert (result["csv"], result["channel"]) == (FIRST, "stable")
    run("cleanup", PACKAGE)
    assert f"{SECOND} installed" in run("run", "pm")


FAILURES: list[tuple[Failures, list[str]]] = [
    (
        Failures(pod=("CrashLoopBackOff", "back-off"), restarts=3),
        ["Pod ns/lagoon-operator-catalog-", "container registry-grpc: CrashLoopBackOff: back-off", "event of Pod ns/"],
    ),
    (Failures(pod=("ErrImagePull", "no such image")), ["timed out after 1s", "ErrImagePull: no such image"]),
    (
        Failures(connection="TRANSIENT_FAILURE"),
        ["waited for OLM to connect", "not connected to 10.0.0.1:50051: state TRANSIENT_FAILURE", "log of Pod ns/"],
    ),
    (
        Failures(resolution="no operators found"),
        ["Subscription ns/lagoon-operator-v0-1-0-sub: ResolutionFailed: ConstraintsNotSatisfiable: no operators found"],
    ),
    (
        Failures(pull="unauthorized"),
        ["OLM to unpack ", "Pod ns/unpack-1, container pull: ErrImagePull: unauthorized", "event of Pod ns/unpack-1"],
    ),
    (
        Failures(unpack=("DeadlineExceeded", "Job was active longer")),
        ["OLM cannot unpack the bundle", "Job ns/unpack: DeadlineExceeded", "container pull: exit code 1: cause"],
    ),
    (
        Failures(step="error creating CRD"),
        ["InstallPlan ns/install-2 failed: Installed: InstallComponentFailed: error creating CRD"],
    ),
    (
        Failures(requirement="CRD is not present"),
        ["requirement CustomResourceDefinition needed: NotPresent: CRD is not present", f"Version ns/{FIRST}: Pending"],
    ),
    (
        Failures(deployment="secret not found"),
        [
            "phase Failed: InstallCheckFailed: install timeout",
            "Deployment ns/lagoon-operator: Available: MinimumReplicasUnavailable",
            "Pod ns/operator-1, container manager: CreateContainerConfigError: secret not found",
            "event of Pod ns/operator-1: Failed: secret not found",
        ],
    ),
]


@pytest.mark.parametrize(("failures", "causes"), FAILURES, ids=[causes[0][:30] for _, causes in FAILURES])
def test_failure_names_its_causes_and_the_remaining_objects(
    failures: Failures, causes: list[str], run: Opm, server: ApiServer, olm: ScriptedOlm, registry: Registry
) -> None:
    olm.failures = failures
    if failures.connection:
        server.react(
            "Pod", lambda pod: server.pod_logs.update({("ns", pod["metadata"]["name"]): "a\nfailed to serve\n"})
        )
    bundle = push(run, registry, "0.1.0") if failures.pull or failures.unpack[0] else "./first"
    done = run.attempt("run", "bundle", bundle, "--use-http", "--timeout", "1s")
    assert done.returncode == 1
    report = done.stderr[done.stderr.index("Error: ") :]
    assert report.startswith(f"Error: {FIRST}: not installed: ")
    for cause in causes:
        assert cause in report
    assert "remaining objects: CatalogSource ns/lagoon-operator-catalog" in report
    assert "run 'opm cleanup' for package lagoon-operator in namespace ns" in report
    run("cleanup", PACKAGE)
    for name in ("unpack-1", "operator-1"):
        server.remove("Pod", name, "ns") if name in remaining(server).get("Pod", []) else None
    assert remaining(server).keys() <= {"Service"}


def test_operator_that_exists_is_an_error(run: Opm) -> None:
    run("run", "bundle", "./first")
    done = run.attempt("run", "bundle", "./first")
    assert done.returncode == 1
    assert f"already exists in namespace ns: {FIRST} is installed" in done.stderr
    assert "'opm cleanup' for package lagoon-operator, or upgrade it with 'opm run bundle-upgrade'" in done.stderr
    done = run.attempt("run", "bundle-upgrade", "./first")
    assert f"bundle {FIRST} of package lagoon-operator: already exists in the catalog" in done.stderr


def test_upgrade_requires_an_installed_operator(run: Opm) -> None:
    done = run.attempt("run", "bundle-upgrade", "./first")
    assert done.returncode == 1
    assert "package lagoon-operator: not installed in namespace ns" in done.stderr
    assert "hint: install it with 'opm run bundle'" in done.stderr


def test_cluster_without_olm_is_an_error(opm: Opm, tmp_path: Path) -> None:
    copy_bundle("0.1.0", tmp_path / "first")
    with ApiServer() as server:
        flags = ("--kubeconfig", str(server.kubeconfig(tmp_path / "kubeconfig")))
        for arguments in (("run", "bundle", "./first"), ("run", "bundle-upgrade", "./first"), ("cleanup", PACKAGE)):
            done = opm.attempt(*arguments, *flags)
            assert done.returncode == 1
            assert f"OLM is not installed in the cluster https://{server.host}" in done.stderr
    done = opm.attempt("run", "bundle", "./first", *flags)
    assert "cannot reach the API server" in done.stderr


def test_missing_permission_names_verb_and_resource(run: Opm, server: ApiServer) -> None:
    server.deny("create", "catalogsources")
    done = run.attempt("run", "bundle", "./first")
    assert done.returncode == 1
    assert 'User "tester" cannot create resource "catalogsources"' in done.stderr
    assert "remaining" not in done.stderr
    server.deny("create", "subscriptions")
    server.allow("create", "catalogsources")
    done = run.attempt("run", "bundle", "./first")
    assert 'cannot create resource "subscriptions"' in done.stderr
    assert "remaining objects: CatalogSource ns/lagoon-operator-catalog, ConfigMap ns/" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--namespace", "missing"), "namespace missing: not found"),
        (("--install-mode", "Some"), "install mode 'Some': unknown type 'Some'"),
        (("--install-mode", "MultiNamespace=a"), "install mode MultiNamespace unsupported"),
        (("--timeout", "soon"), "invalid duration 'soon' of --timeout"),
        (("--ca-secret-name", "missing"), "Secret ns/missing: not found"),
        (("--index-image", "./missing"), "./missing: no such file or directory"),
    ],
)
def test_invalid_arguments_create_nothing(
    arguments: tuple[str, str], problem: str, run: Opm, server: ApiServer
) -> None:
    flags = run.flags if arguments[0] != "--namespace" else ()
    done = replace(run, flags=flags).attempt("run", "bundle", "./first", *arguments)
    assert done.returncode == 1
    assert problem in done.stderr
    assert remaining(server) == {}


def test_unsuitable_operator_group_is_an_error(run: Opm, server: ApiServer) -> None:
    group = {"kind": "OperatorGroup", "metadata": {"name": "existing", "namespace": "ns"}}
    server.put({**group, "spec": {"targetNamespaces": ["a", "b"]}})
    done = run.attempt("run", "bundle", "./first")
    assert "OperatorGroup ns/existing: it selects namespaces a, b, but lagoon-operator.v0.1.0 does not" in done.stderr
    server.put({**group, "spec": {"targetNamespaces": ["ns"]}})
    result: Any = json.loads(run("run", "bundle", "./first", "-o", "json"))
    assert (result["operator_group"], result["watched_namespaces"]) == ("existing", ["ns"])
    run("cleanup", PACKAGE)
    assert remaining(server)["OperatorGroup"] == ["existing"]


def test_overloaded_api_server_is_asked_again(run: Opm, server: ApiServer) -> None:
    server.fail("get", "clusterserviceversions", status=503)
    run("run", "bundle", "./first")


def test_cleanup_without_an_operator_is_a_warning(run: Opm) -> None:
    done = run.attempt("cleanup", PACKAGE)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "Warning: package lagoon-operator: not found in namespace ns\n"


def test_cleanup_retains_objects_on_request_or_of_others(run: Opm, server: ApiServer) -> None:
    run("run", "bundle", "./first")
    table = run("cleanup", PACKAGE, "--delete-all=false")
    assert "lagoons.water.example.com retained deletion of CustomResourceDefinitions is disabled" in " ".join(
        table.split()
    )
    left = remaining(server)
    assert (left["CustomResourceDefinition"], left["OperatorGroup"]) == (
        ["lagoons.water.example.com"],
        ["operator-sdk-og"],
    )
    run("run", "bundle", "./first")
    owned = {"customresourcedefinitions": {"owned": [{"name": "lagoons.water.example.com"}]}}
    server.put({"kind": "ClusterServiceVersion", "metadata": {"name": "other", "namespace": "default"}, "spec": owned})
    assert "also owned by default/other" in run("cleanup", PACKAGE)


def test_cleanup_names_objects_with_finalizers(run: Opm, server: ApiServer) -> None:
    run("run", "bundle", "./first")
    csv = server.get("ClusterServiceVersion", FIRST, "ns")
    csv["metadata"]["finalizers"] = ["example.com/wait"]
    server.put(csv)
    done = run.attempt("cleanup", PACKAGE, "--timeout", "1s")
    assert done.returncode == 1
    assert f"ClusterServiceVersion ns/{FIRST} still exists: finalizers example.com/wait" in done.stderr


def test_interrupted_command_lists_what_it_created(run: Opm, olm: ScriptedOlm) -> None:
    olm.failures = Failures(pod=("ContainerCreating", ""))
    with subprocess.Popen(
        [str(PROGRAM), "run", "bundle", "./first", *run.flags],
        cwd=run.directory,
        env=run.env,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("waiting for pod"):
                process.send_signal(signal.SIGTERM)
                break
        report = process.stderr.read()
    assert process.returncode == 143
    assert (
        "Error: interrupted by SIGTERM; already updated: CatalogSource ns/lagoon-operator-catalog, ConfigMap" in report
    )
    assert "hint: run 'opm cleanup lagoon-operator --namespace ns' to remove the objects" in report


def test_catalog_that_olm_runs_is_replaced_by_an_extended_copy(run: Opm, server: ApiServer, registry: Registry) -> None:
    first, second = push(run, registry, "0.1.0"), push(run, registry, "0.2.0")
    index = f"{first.rpartition(':')[0]}-index:1"
    build = ("index", "add", "-b", first, "--to-fbc", "-i", "scratch", "-t", index, "--push")
    replace(run, flags=("--use-http",))(*build)
    polled = {"image": index, "sourceType": "grpc", "updateStrategy": {"registryPoll": {"interval": "30m"}}}
    server.put({"kind": "CatalogSource", "metadata": {"name": "shared", "namespace": "ns"}, "spec": polled})
    subscription = {"kind": "Subscription", "metadata": {"name": "sub", "namespace": "ns"}}
    spec = {"name": PACKAGE, "channel": "stable", "source": "shared", "sourceNamespace": "ns", "startingCSV": FIRST}
    status = {"currentCSV": FIRST, "installedCSV": FIRST, "installPlanRef": {"name": "old"}}
    server.put({**subscription, "spec": spec, "status": status})
    server.put({"kind": "ClusterServiceVersion", "metadata": {"name": FIRST, "namespace": "ns"}, "spec": {}})

    result = json.loads(run("run", "bundle-upgrade", second, "--use-http", "-o", "json"))
    assert (result["csv"], result["channel"], result["catalog_source"]) == (SECOND, "stable", "shared")
    source = server.get("CatalogSource", "shared", "ns")
    assert source["spec"].keys() == {"address", "sourceType"}
    (pod,) = server.objects("Pod")
    assert pod["spec"]["containers"][0]["image"] == index
    table = run("cleanup", PACKAGE)
    assert "CatalogSource ns shared retained not created to run this package" in " ".join(table.split())


def test_catalog_of_a_database_is_extended_from_its_record(run: Opm, server: ApiServer, registry: Registry) -> None:
    """operator-sdk serves a database that a pod creates, so the catalog is not in ConfigMaps."""
    first, second = push(run, registry, "0.1.0"), push(run, registry, "0.2.0")
    run("run", "bundle", first, "--use-http")
    source = server.get("CatalogSource", "lagoon-operator-catalog", "ns")
    del source["metadata"]["annotations"]["operators.operatorframework.io/registry-pod-name"]
    server.put(source)
    assert f"{FIRST} upgraded to {SECOND}" in run("run", "bundle-upgrade", second, "--use-http")
    (config_map,) = server.objects("ConfigMap")
    assert config_map["metadata"]["name"].startswith("lagoon-operator-catalog-")


def test_catalog_without_a_record_cannot_be_extended(run: Opm, server: ApiServer) -> None:
    run("run", "bundle", "./first")
    source = server.get("CatalogSource", "lagoon-operator-catalog", "ns")
    server.put({**source, "metadata": {**source["metadata"], "annotations": {}}})
    copy_bundle("0.2.0", run.directory / "second")
    done = run.attempt("run", "bundle-upgrade", "./second")
    assert done.returncode == 1
    assert "CatalogSource ns/lagoon-operator-catalog: cannot be extended" in done.stderr
    server.remove("CatalogSource", "lagoon-operator-catalog", "ns")
    done = run.attempt("run", "bundle-upgrade", "./second")
    assert "CatalogSource ns/lagoon-operator-catalog not found" in done.stderr


def test_certificate_authorities_are_read_from_a_secret(
    run: Opm, server: ApiServer, tls_registry: Registry, tmp_path: Path
) -> None:
    image = f"{tls_registry.host}/run/lagoon:1"
    replace(run, flags=("--ca-file", str(tls_registry.ca_file))).build_bundle("0.1.0", image, "--push")
    encoded = base64.b64encode(tls_registry.ca_file.read_bytes()).decode()
    secret = {"kind": "Secret", "metadata": {"name": "ca", "namespace": "ns"}}
    server.put({**secret, "data": {"cert.pem": encoded}})
    assert f"{FIRST} installed" in run("run", "bundle", image, "--ca-secret-name", "ca")
    server.put({**secret, "data": {"cert.pem": "bm9uZQ=="}})
    done = run.attempt("run", "bundle", image, "--ca-secret-name", "ca")
    assert "Secret ns/ca: no certificate in the key cert.pem" in done.stderr


def test_terminal_shows_the_current_state(run: Opm, olm: ScriptedOlm) -> None:
    olm.failures = Failures(pod=("ErrImagePull", "no such image"))
    command = [str(PROGRAM), "run", "bundle", "./first", "--timeout", "2s", *run.flags]
    with Terminal(command, run.directory, {**os.environ, **run.env, "TERM": "xterm", "COLUMNS": "200"}) as terminal:
        terminal.expect("CatalogSource lagoon-operator-catalog created")
        terminal.expect("waiting for pod lagoon-operator-catalog-")
        terminal.expect("ErrImagePull: no such image")
        terminal.expect("Error: lagoon-operator.v0.1.0: not installed: timed out after 2s")


def test_pod_that_the_namespace_forbids_is_explained(run: Opm, server: ApiServer) -> None:
    message = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'
    server.fail("create", "pods", status=403, message=message)
    done = run.attempt("run", "bundle", "./first")
    assert done.returncode == 1
    assert message in done.stderr
    assert "use --security-context-config restricted, with images that do not run as root" in done.stderr


def test_query_of_the_server_is_not_printed(opm: Opm, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1/?token=secret"}}
    content = {"clusters": [cluster], "contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}
    path.write_text(json.dumps(content))
    failed = opm.attempt("cleanup", PACKAGE, "--kubeconfig", str(path))
    assert (failed.returncode, "secret" in failed.stderr) == (1, False)
    assert "cannot reach the API server http://127.0.0.1:1/: " in failed.stderr
