"""Generation of bundles from the manifests that install an operator."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml

from opmkit.documents import go_yaml
from tests.kit.generated_bundles import HARBOR, read_files
from tests.kit.opm import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

PLAIN = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: boat-operator}
spec:
  selector: {matchLabels: {app: boat}}
  template:
    metadata: {labels: {app: boat}}
    spec: {containers: [{name: manager, image: IMAGE}]}
"""


def write_plain(directory: Path, image: str = "quay.example.com/boats/operator:1") -> str:
    """Write the Deployment and a CRD of an operator without a project, and return the name of their directory."""
    (directory / "deploy").mkdir()
    (directory / "deploy/deployment.yaml").write_text(PLAIN.replace("IMAGE", image))
    shutil.copy(HARBOR / "config/crd/bases/ships.example.com_berths.yaml", directory / "deploy")
    return "deploy"


def test_bundles_of_operators_without_a_project(opm: Opm) -> None:
    written = opm("bundle", "generate", "--input", write_plain(opm.directory), "-p", "boat", "--version", "0.1.0")
    assert "bundle/manifests/boat.clusterserviceversion.yaml: written" in written
    assert "metrics" not in (opm.directory / "bundle.Dockerfile").read_text()
    before = read_files(opm.directory)
    again = opm.attempt("bundle", "generate", "--input", "deploy", "-p", "boat", "--version", "0.1.0")
    assert "bundle/manifests/boat.clusterserviceversion.yaml: unchanged\n" in again.stdout
    assert re.fullmatch(r"(\S+: unchanged\n){4}", again.stdout)
    assert "Warning: no base ClusterServiceVersion: description, provider, links and icon are placeh" in again.stderr
    assert "pass it with --base-csv, or write a base with 'opm generate kustomize manifests'\n" in again.stderr
    assert read_files(opm.directory) == before
    opm("bundle", "validate", "bundle", "--profile", "operator-sdk")
    opm("bundle", "build", "-f", "bundle.Dockerfile", "-t", "oci:images/boat:1")
    opm("bundle", "validate", "oci:images/boat:1", "--profile", "operator-sdk")


def test_a_second_version_with_a_base(opm: Opm) -> None:
    directory = write_plain(opm.directory)
    base = HARBOR / "config/manifests/bases/harbor-operator.clusterserviceversion.yaml"
    flags = ("--package", "harbor-operator", "--base-csv", str(base), "--output-dir", "out")
    opm("bundle", "generate", "--input", directory, *flags, "--version", "0.1.0", "-c", "beta,alpha", "-e", "beta")
    (opm.directory / "out/manifests/old.yaml").touch()
    written = opm("bundle", "generate", "--input", directory, *flags, "--version", "0.2.0")
    assert "out/manifests/old.yaml: not generated from the input" in written
    csv = (opm.directory / "out/manifests/harbor-operator.clusterserviceversion.yaml").read_text()
    assert "  replaces: harbor-operator.v0.0.9\n  version: 0.2.0\n" in csv
    annotations = (opm.directory / "out/metadata/annotations.yaml").read_text()
    assert "channels.v1: beta,alpha\n" in annotations
    assert "channel.default.v1: beta\n" in annotations


def test_projects_as_operator_sdk(opm: Opm) -> None:
    shutil.copytree(HARBOR, opm.directory, dirs_exist_ok=True)
    with (HARBOR / "built.yaml").open("rb") as manifests:
        argv = [str(PROGRAM), "generate", "--verbose", "bundle", "-q", "--overwrite", "--version", "0.1.0"]
        done = subprocess.run(argv, stdin=manifests, cwd=opm.directory, capture_output=True, text=True, check=False)
    warning = "binds accounts of namespace harbor-operator-system, even if the operator is installed in another one"
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"Warning: RoleBinding harbor-operator-pilot-rolebinding: {warning}\n"
    opm("bundle", "validate", "./bundle", "--profile", "operator-sdk")
    opm("generate", "bundle", "--input-dir", "built.yaml", "--metadata", "--channels", "stable", "--overwrite=false")
    assert "channels.v1=alpha" in (opm.directory / "bundle.Dockerfile").read_text()
    opm("generate", "bundle", "--metadata", "--channels", "stable")
    assert "channels.v1=stable" in (opm.directory / "bundle.Dockerfile").read_text()


def test_manifests_can_be_printed(opm: Opm) -> None:
    printed = opm("generate", "bundle", "--input-dir", write_plain(opm.directory), "--package", "boat", "--stdout")
    kinds = [
        value.get("kind")
        for text in printed.split("---\n")[1:]
        if isinstance(value := go_yaml.load(text.encode()), dict)
    ]
    assert kinds == ["ClusterServiceVersion", "CustomResourceDefinition"]
    assert sorted(path.name for path in opm.directory.iterdir()) == ["deploy"]


def test_separate_directories_and_a_base_in_a_kustomize_directory(opm: Opm) -> None:
    directory = write_plain(opm.directory)
    (opm.directory / "crds").mkdir()
    shutil.copy(HARBOR / "config/crd/bases/ships.example.com_harbors.yaml", opm.directory / "crds")
    flags = ("--package", "harbor-operator", "--kustomize-dir", str(HARBOR / "config/manifests"))
    opm("generate", "bundle", "--deploy-dir", directory, "--crds-dir", "crds", *flags, "--version", "1.0.0")
    manifests = opm.directory / "bundle/manifests"
    assert sorted(path.name for path in manifests.iterdir()) == [
        "harbor-operator.clusterserviceversion.yaml",
        "ships.example.com_harbors.yaml",
    ]
    assert "displayName: Harbor Operator\n" in (manifests / "harbor-operator.clusterserviceversion.yaml").read_text()


def test_images_are_replaced_by_digests(opm: Opm, registry: Registry) -> None:
    http = replace(opm, flags=("--use-http",))
    tag = f"{registry.host}/generated/boat:1"
    digest = http.build_bundle("0.1.0", tag, "--push").strip().rpartition("@")[2]
    argv = ("generate", "bundle", "--input-dir", write_plain(opm.directory, tag), "--package", "boat")
    http(*argv, "--version", "1.0.0", "--use-image-digests")
    csv = (opm.directory / "bundle/manifests/boat.clusterserviceversion.yaml").read_text()
    assert csv.count(f"{registry.host}/generated/boat@{digest}") == 2
    assert "written" not in http(*argv, "--version", "1.0.0", "--use-image-digests")


def test_images_of_operands_in_examples_are_replaced_by_digests(opm: Opm, registry: Registry) -> None:
    """As for cloudnative-pg, whose example names the image of the database: mirrors copy only related images."""
    http = replace(opm, flags=("--use-http",))
    tags = [f"{registry.host}/operands/{name}:1" for name in ("operator", "database")]
    operator, database = (http.build_bundle("0.1.0", tag, "--push").strip().partition(" ")[0] for tag in tags)
    digest = database.rpartition("@")[2]
    deploy = opm.directory / write_plain(opm.directory, tags[0])
    example = {"apiVersion": "ships.example.com/v1alpha1", "kind": "Berth", "metadata": {"name": "a"}}
    (deploy / "example.yaml").write_text(json.dumps({**example, "spec": {"image": tags[1]}}))
    argv = ("generate", "bundle", "--input-dir", "deploy", "--package", "boat", "--version", "1.0.0")
    http(*argv, "--use-image-digests")
    csv = yaml.safe_load((opm.directory / "bundle/manifests/boat.clusterserviceversion.yaml").read_text())
    pinned = f"{registry.host}/operands/database@{digest}"
    (written,) = json.loads(csv["metadata"]["annotations"]["alm-examples"])
    assert written["spec"]["image"] == pinned
    assert csv["spec"]["relatedImages"] == [
        {"name": "manager", "image": f"{registry.host}/operands/operator@{operator.rpartition('@')[2]}"},
        {"name": f"database-{digest.removeprefix('sha256:')}-annotation", "image": pinned},
    ]


@pytest.mark.parametrize(
    ("channels", "written"),
    [('"1.31"', "1.31"), ("'1.31'", "1.31"), ('"alpha,1.31"', "alpha,1.31"), ('"alpha","1.31"', "alpha,1.31")],
)
def test_quotes_around_channels_are_no_part_of_their_names(opm: Opm, channels: str, written: str) -> None:
    """Makefiles quote versions as channels, so that operator-sdk writes strings to YAML."""
    last = f'"{written.rpartition(",")[2]}"'
    common = ("--package", "boat", "--channels", channels)
    write_plain(opm.directory)
    for command in (
        ("generate", "bundle", "--input-dir", "deploy", "--version", "1.0.0", "--default-channel", last, *common),
        ("bundle", "generate", "--directory", "bundle/manifests", "--default", last, *common),
    ):
        opm(*command)
        annotations = yaml.safe_load((opm.directory / "bundle/metadata/annotations.yaml").read_text())["annotations"]
        found = [annotations[f"operators.operatorframework.io.bundle.{key}.v1"] for key in CHANNEL_KEYS]
        assert found == [written, last.strip('"')]
        assert f".channels.v1={written}\n" in (opm.directory / "bundle.Dockerfile").read_text()


CHANNEL_KEYS = ("channels", "channel.default")


def test_a_bundle_of_dependencies_has_no_deployment(opm: Opm) -> None:
    (opm.directory / "deploy").mkdir()
    shutil.copy(HARBOR / "config/crd/bases/ships.example.com_berths.yaml", opm.directory / "deploy")
    done = opm.attempt("generate", "bundle", "--input-dir", "deploy", "--package", "boat", "--version", "1.0.0")
    assert done.returncode == 0
    assert "Warning: no Deployment found: the ClusterServiceVersion installs no operator\n" in done.stderr
    csv = yaml.safe_load((opm.directory / "bundle/manifests/boat.clusterserviceversion.yaml").read_text())
    assert csv["spec"]["install"] == {"spec": {"deployments": []}, "strategy": "deployment"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bundle", "generate"), "no manifests given: none of --directory, --input and standard input"),
        (("alpha", "bundle", "generate", "-p", "x"), "no manifests given"),
        (("generate", "bundle", "--package", "x"), "no manifests given: neither standard input nor --input-dir"),
        (("bundle", "generate", "--input", "deploy"), "no package name: --package is not set, and there is no PROJECT"),
        (("bundle", "generate", "-d", "x", "--input", "y"), "--directory and --input are mutually exclusive"),
        (("generate", "bundle", "--package=x", "--input-dir=a", "--crds-dir=b"), "--input-dir and --crds-dir are"),
        (("generate", "bundle", "--package", "x", "--crds-dir", "b"), "--crds-dir requires --deploy-dir"),
        (("generate", "bundle", "--stdout", "--output-dir", "b"), "--stdout and --output-dir are mutually exclusive"),
        (("bundle", "generate", "--input", "absent", "-p", "x"), "absent: No such file or directory"),
        (("bundle", "generate", "--input", "deploy", "-p", "x", "--version", "v1"), "invalid version 'v1'"),
        (("bundle", "generate", "--input", "broken.yaml", "-p", "x"), "broken.yaml:2:1: document 1: "),
        (
            ("bundle", "generate", "--input", "deploy", "-p", "x", "--base-csv", "crd.yaml"),
            "crd.yaml: no ClusterService",
        ),
        (
            ("bundle", "generate", "--input", "deploy", "-p", "x", "--channels", '1"31'),
            'invalid channel 1"31: quotes\n  hint: correct --channels',
        ),
    ],
)
def test_errors(opm: Opm, arguments: tuple[str, ...], message: str) -> None:
    write_plain(opm.directory)
    (opm.directory / "broken.yaml").write_text("a: [\n")
    shutil.copy(HARBOR / "config/crd/bases/ships.example.com_berths.yaml", opm.directory / "crd.yaml")
    done = opm.attempt(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {message}")
    assert "hint: " in done.stderr
    assert not (opm.directory / "bundle").exists()


def test_hostile_names_are_escaped(opm: Opm) -> None:
    (opm.directory / "x.yaml").write_text('{"apiVersion": "v1", "kind": "\\u001b[31mX", "metadata": {"name": "a"}}')
    write_plain(opm.directory)
    shutil.move(opm.directory / "x.yaml", opm.directory / "deploy")
    done = opm.attempt("bundle", "generate", "--input", "deploy", "-p", "boat", "--version", "1.0.0")
    assert done.returncode == 0
    assert "\x1b" not in done.stderr
    assert "omitted objects that OLM cannot install: \\x1b[31mX a" in done.stderr
