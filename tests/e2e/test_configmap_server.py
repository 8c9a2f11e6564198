"""``configmap-server`` and ``opm bundle extract`` with an API server."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.client import CatalogClient
from tests.kit.apiserver import ApiServer
from tests.kit.bundles import bundle_content, bundle_image, push_image
from tests.kit.forkserver import Command
from tests.kit.opm import LAGOON, PROGRAM, Opm
from tests.kit.requirements import require
from tests.kit.server import Server, fields

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.forkserver import Done, ForkServer
    from tests.kit.registry import Registry as ImageRegistry

CONFIGMAP_SERVER = PROGRAM.with_name("configmap-server")
NAMED = ("--configMapName", "catalog", "--configMapNamespace", "olm")
SERVICE_ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with ApiServer(namespaces=("olm",)) as started:
        yield started


@pytest.fixture
def kubeconfig(server: ApiServer, tmp_path: Path) -> str:
    server.clear("ConfigMap")
    return str(server.kubeconfig(tmp_path / "kubeconfig"))


def catalog(*versions: str) -> dict[str, str]:
    """Return the data of a ConfigMap with versions of the sample operator."""
    objects = [
        [yaml.safe_load(path.read_bytes()) for path in sorted((LAGOON / version / "manifests").iterdir())]
        for version in versions
    ]
    of_kind = {
        kind: {each["metadata"]["name"]: each for parts in objects for each in parts if each["kind"] == kind}
        for kind in ("CustomResourceDefinition", "ClusterServiceVersion")
    }
    heads = [{"name": "stable", "currentCSV": f"lagoon-operator.v{versions[-1]}"}]
    lists = {
        "customResourceDefinitions": list(of_kind["CustomResourceDefinition"].values()),
        "clusterServiceVersions": list(of_kind["ClusterServiceVersion"].values()),
        "packages": [{"packageName": "lagoon-operator", "channels": heads}],
    }
    return {key: yaml.safe_dump(values) for key, values in lists.items()}


def serving(kubeconfig: str, *flags: str, directory: Path) -> Server:
    database = str(directory / "bundles.db")
    return Server(*NAMED, "--kubeconfig", kubeconfig, "--database", database, *flags, program=[str(CONFIGMAP_SERVER)])


def attempt(*flags: str, directory: Path, forkserver: ForkServer) -> Done:
    """Run ``configmap-server`` until it exits."""
    termination = ("--termination-log", str(directory / "termination-log"), "--port", "0")
    (done,) = forkserver.run([Command([*flags, *termination], directory=directory, program="configmap-server")])
    return done


def test_catalog_in_a_config_map_is_served(server: ApiServer, kubeconfig: str, tmp_path: Path) -> None:
    content = catalog("0.1.0", "0.2.0")
    server.put_config_map("olm", "catalog", content)
    with serving(kubeconfig, directory=tmp_path) as started, CatalogClient.connect(started.address) as client:
        assert client.is_healthy()
        assert list(client.list_packages()) == ["lagoon-operator"]
        [channel] = client.get_package("lagoon-operator").channels
        assert (channel.name, channel.head) == ("stable", "lagoon-operator.v0.2.0")
        bundles = {bundle.name: bundle for bundle in client.list_bundles()}
    versions = yaml.safe_load(content["clusterServiceVersions"])
    assert list(bundles) == [each["metadata"]["name"] for each in versions]
    for version in versions:
        bundle: Any = bundles[version["metadata"]["name"]]
        assert bundle.image == ""
        assert json.loads(bundle.csv)["spec"] == version["spec"]
        assert {json.loads(each)["kind"] for each in bundle.objects} == {
            "ClusterServiceVersion",
            "CustomResourceDefinition",
        }
    assert server.requests[-1].verb == "get"


def test_permissive_serves_the_valid_part_of_a_catalog(server: ApiServer, kubeconfig: str, tmp_path: Path) -> None:
    content = {**catalog("0.1.0"), "packages": "- packageName: other\n  channels: [{name: a, currentCSV: none}]\n"}
    server.put_config_map("olm", "catalog", content)
    with (
        serving(kubeconfig, "--permissive", directory=tmp_path) as started,
        CatalogClient.connect(started.address) as client,
    ):
        assert list(client.list_packages()) == []
        warning = next(line for line in started.err.splitlines() if "level=warning" in line)
    assert fields(warning)["msg"] == "permissive mode enabled"
    assert "packages[0]: channel a of package other: head none not found" in fields(warning)["error"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, r"error getting configmap: configmaps \"catalog\" not found"),
        ({}, "ConfigMap olm/catalog: couldn't find expected key customResourceDefinitions in configmap"),
        ({**catalog("0.1.0"), "packages": "a: ["}, "ConfigMap olm/catalog: packages:2:1: "),
    ],
    ids=["missing", "empty", "broken"],
)
def test_errors_are_one_line_on_stderr_and_in_the_termination_log(
    content: dict[str, str] | None,
    problem: str,
    server: ApiServer,
    kubeconfig: str,
    forkserver: ForkServer,
    tmp_path: Path,
) -> None:
    if content is not None:
        server.put_config_map("olm", "catalog", content)
    done = attempt(*NAMED, "--kubeconfig", kubeconfig, directory=tmp_path, forkserver=forkserver)
    assert (done.status, done.stdout) == (1, "")
    assert problem in done.stderr
    assert "hint=" in done.stderr
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "termination-log").read_text() == done.stderr
    assert not (tmp_path / "bundles.db").exists()


def test_unreachable_cluster_is_an_error(server: ApiServer, forkserver: ForkServer, tmp_path: Path) -> None:
    gone = str(server.kubeconfig(tmp_path / "gone", server="https://127.0.0.1:1"))
    for flags, problem in (
        (["--kubeconfig", gone], "cannot reach the API server https://127.0.0.1:1"),
        ([], "not running in a pod with a service account"),
    ):
        done = attempt(*NAMED, *flags, directory=tmp_path, forkserver=forkserver)
        assert done.status == 1
        assert problem in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "flags", [("--bogus",), ("--configMapNamespace", "olm"), ("--configMapName", "catalog"), (*NAMED, "--port", "x")]
)
def test_usage_errors_exit_with_2(flags: tuple[str, ...], forkserver: ForkServer, tmp_path: Path) -> None:
    (done,) = forkserver.run([Command(flags, directory=tmp_path, program="configmap-server")])
    assert done.status == 2
    assert done.stderr.startswith("Error: ")
    assert "  hint: " in done.stderr


def test_in_a_pod_the_service_account_is_used(server: ApiServer, kubeconfig: str, tmp_path: Path) -> None:
    """The files of the service account are mounted at their usual path in a mount namespace."""
    if os.getuid():
        pytest.skip("requires root, to mount files")
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(server.token)
    (account / "ca.crt").write_bytes(server.ca_file.read_bytes())
    mount = f"mount -t tmpfs none /run && mkdir -p {SERVICE_ACCOUNT} && mount --bind {account} {SERVICE_ACCOUNT}"
    host, _, port = server.host.partition(":")
    pod = (*("env", f"KUBERNETES_SERVICE_HOST={host}", f"KUBERNETES_SERVICE_PORT={port}"), str(CONFIGMAP_SERVER))
    unshared = [require("unshare"), "--mount", "sh", "-c", f'{mount} && exec "$@"', "-", *pod]
    server.put_config_map("olm", "catalog", catalog("0.1.0"))
    with (
        Server(*NAMED, "--database", str(tmp_path / "bundles.db"), program=unshared) as started,
        CatalogClient.connect(started.address) as client,
    ):
        assert list(client.list_packages()) == ["lagoon-operator"]


def test_bundle_image_is_extracted_to_a_config_map(
    server: ApiServer, kubeconfig: str, registry: ImageRegistry, opm: Opm, tmp_path: Path
) -> None:
    name = push_image(f"{registry.host}/extract/demo:1", bundle_image("demo", "1.0.0", tmp_path))
    opm = replace(opm, flags=("--use-http",), env={"KUBECONFIG": kubeconfig})
    extract = ("alpha", "bundle", "extract", name, "--configmapname", "demo", "--namespace", "olm")
    assert opm(*extract, "--kubeconfig", "overridden by KUBECONFIG") == ""
    stored = server.get("ConfigMap", "demo", "olm")
    assert stored["data"] == {"csv.yaml": bundle_content("demo", "1.0.0")["manifests/csv.yaml"].decode()}
    assert stored["metadata"]["annotations"]["olm.sourceImage"] == name
    asked = len(server.requests)
    printed = yaml.safe_load(opm(*extract, "--dry-run"))
    assert json.loads(opm(*extract, "--dry-run", "--output", "json")) == printed
    assert len(server.requests) == asked
    assert printed["data"] == stored["data"]
    assert printed["metadata"].items() <= stored["metadata"].items()


def test_bundle_directory_is_extracted_to_a_config_map(
    server: ApiServer, kubeconfig: str, opm: Opm, tmp_path: Path
) -> None:
    for path, content in bundle_content("demo", "1.0.0").items():
        (tmp_path / "root" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / path).write_bytes(content)
    opm = replace(opm, env={"CONTAINER_IMAGE": "quay.io/me/demo:1"})
    opm("bundle", "extract", "-m", "root", "-c", "demo", "-n", "olm", "-k", kubeconfig, "-z")
    stored = server.get("ConfigMap", "demo", "olm")
    assert stored["binaryData"].keys() == {"csv.yaml"}
    annotations = stored["metadata"]["annotations"]
    assert annotations["olm.sourceImage"] == "quay.io/me/demo:1"
    assert annotations["olm.contentEncoding"] == "gzip+base64"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("-m", "root"), 'required flag(s) "configmapname" not set'),
        (("-m", "root", "./root", "-c", "x"), "SOURCE and --manifestsdir are mutually exclusive"),
        (("-m", "none", "-c", "x"), "none has no manifests directory"),
        (("-m", "root", "-c", "x", "-l", "9"), "bundle files exceeded 9 bytes limit"),
        (("-m", "root", "-c", "x", "-k", "none"), "kubeconfig none: no such file"),
        (("-m", "root", "-c", "x"), "not running in a pod with a service account"),
    ],
)
def test_errors_of_extract(flags: tuple[str, ...], problem: str, opm: Opm, tmp_path: Path) -> None:
    for path, content in bundle_content("demo", "1.0.0").items():
        (tmp_path / "root" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / path).write_bytes(content)
    done = opm.attempt("bundle", "extract", *flags)
    assert done.returncode == 1
    assert problem in done.stderr
    assert "hint: " in done.stderr
    assert len(done.stderr.splitlines()) == 2
