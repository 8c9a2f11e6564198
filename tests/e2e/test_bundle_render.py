"""``opm bundle render``: the objects that OLM v1 applies for a bundle."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

KINDS = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"]


@pytest.fixture
def site(opm: Opm) -> Opm:
    """Return the command next to a bundle directory."""
    shutil.copytree(LAGOON / "0.1.0", opm.directory / "lagoon")
    return opm


def test_images_and_directories_give_the_same_objects(site: Opm, registry: Registry) -> None:
    name = f"{registry.host}/render/lagoon:1"
    site("bundle", "build", "-d", "lagoon/manifests", "-t", name, "--push", "--use-http")
    stream = site("bundle", "render", "./lagoon", "--namespace", "water")
    assert stream == site("bundle", "render", name, "-n", "water", "--use-http")
    objects = list(yaml.safe_load_all(stream))
    assert [value["kind"] for value in objects][:4] == KINDS
    assert objects == json.loads(site("bundle", "render", "./lagoon", "-n", "water", "-o", "json"))["objects"]


def test_files_are_written_once(site: Opm) -> None:
    arguments = ("bundle", "render", "./lagoon", "-n", "water", "--output-dir", "new/base", "--kustomize")
    done = site.attempt(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "8 files written to new/base\n")
    listed = yaml.safe_load((site.directory / "new/base/kustomization.yaml").read_text())["resources"]
    assert sorted([*listed, "kustomization.yaml"]) == sorted(
        path.name for path in (site.directory / "new/base").iterdir()
    )
    again = site.attempt(*arguments)
    assert (again.returncode, again.stdout) == (1, "")
    assert "new/base: already exists and is not an empty directory" in again.stderr


def test_a_helm_chart_with_defaults(site: Opm) -> None:
    site.directory.joinpath("config.yaml").write_text("watchNamespace: a\ndeploymentConfig: {nodeSelector: {x: z}}\n")
    arguments = ("--config", "config.yaml", "--output-dir", "chart", "--helm", "--helm-crds", "templates")
    done = site.attempt("bundle", "render", "./lagoon", *arguments)
    chart = site.directory / "chart"
    names = sorted(str(path.relative_to(chart)) for path in chart.rglob("*.*"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"{len(names)} files written to chart\n")
    assert names[:3] == ["Chart.yaml", "templates/_helpers.tpl", "templates/clusterrole_" + names[2].split("_", 1)[1]]
    assert not any(name.startswith("crds/") for name in names)
    assert yaml.safe_load((chart / "values.yaml").read_text()) == {
        "namespace": "",
        "watchNamespaces": ["a"],
        "deploymentConfig": {"nodeSelector": {"x": "z"}},
    }
    metadata = yaml.safe_load((chart / "Chart.yaml").read_text())
    assert (metadata["name"], metadata["version"]) == ("lagoon-operator", "0.1.0")


def test_configuration(site: Opm) -> None:
    config = site.directory / "config.yaml"
    config.write_text("watchNamespace: a\ndeploymentConfig: {nodeSelector: {x: z}}\n")
    objects = list(yaml.safe_load_all(site("bundle", "render", "./lagoon", "-n", "water", "--config", "config.yaml")))
    assert [value["metadata"]["namespace"] for value in objects if value["kind"] == "Role"] in ([], ["a"])
    (deployment,) = (value for value in objects if value["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["nodeSelector"] == {"x": "z"}
    assert deployment["spec"]["template"]["metadata"]["annotations"]["olm.targetNamespaces"] == "a"
    config.write_text("deploymentConfig: {nodeSelektor: {}}\n")
    done = site.attempt("bundle", "render", "./lagoon", "-n", "water", "--config", "config.yaml")
    assert done.stderr.startswith("Error: config.yaml: deploymentConfig.nodeSelektor is an unknown field\n")
    assert "nodeSelector" in done.stderr


def test_a_bundle_that_olm_v1_does_not_support(site: Opm) -> None:
    (site.directory / "lagoon/manifests/pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p\x1b}\n")
    done = site.attempt("bundle", "render", "./lagoon", "-n", "water", "--output-dir", "out")
    assert (done.returncode, done.stdout) == (1, "")
    (site.directory / "lagoon/manifests/pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
    done = site.attempt("bundle", "render", "./lagoon", "-n", "water", "--output-dir", "out")
    assert (done.returncode, done.stdout) == (1, "")
    reason = "bundles cannot contain objects of kind Pod ('p')"
    assert done.stderr.startswith(f"Error: ./lagoon: manifests/pod.yaml: {reason}\n")
    assert not (site.directory / "out").exists()
    checked = site.attempt("bundle", "validate", "lagoon", "--profile", "olm-v1")
    assert checked.returncode == 1
    assert reason in checked.stdout + checked.stderr
    assert "OLM v1" not in site.attempt("bundle", "validate", "lagoon").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("./lagoon",), '"namespace" not set'),
        (("./lagoon", "-n", "../x"), "invalid namespace '../x'"),
        (("./lagoon", "-n", "a", "--watch-namespace", "b,c"), "does not support install mode MultiNamespace"),
        (("./lagoon", "-n", "a", "--kustomize"), "--kustomize requires --output-dir"),
        (("./lagoon", "--helm"), "--helm requires --output-dir"),
        (("./lagoon", "--helm", "--kustomize", "--output-dir", "x"), "--kustomize and --helm exclude each other"),
        (("./lagoon", "--helm", "--output-dir", "x", "-n", "A"), "invalid namespace 'A'"),
        (("./lagoon", "--helm", "--output-dir", "lagoon"), "lagoon: already exists and is not an empty directory"),
        (("./lagoon", "-n", "a", "-o", "xml"), "invalid value of --output"),
        (("./lagoon", "-n", "a", "--config", "missing.yaml"), "missing.yaml"),
        (("./missing", "-n", "a"), "missing has no manifests directory"),
    ],
)
def test_errors(site: Opm, arguments: tuple[str, ...], message: str) -> None:
    done = site.attempt("bundle", "render", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_dependencies_are_warned_of(site: Opm) -> None:
    dependencies = site.directory / "lagoon/metadata/dependencies.yaml"
    dependencies.write_text("dependencies:\n- type: olm.package\n  value: {packageName: reef, version: '>=1.0.0'}\n")
    for arguments in ((), ("--output-dir", "chart", "--helm")):
        done = site.attempt("bundle", "render", "./lagoon", "-n", "water", *arguments)
        assert done.returncode == 0
        assert done.stderr.splitlines()[0] == (
            "Warning: lagoon-operator.v0.1.0: OLM v1 does not install bundles with dependencies (olm.package.required)"
        )
    done = site.attempt("bundle", "validate", "./lagoon", "--profile", "olm-v1")
    assert (done.returncode, "OLM-V1-DEPENDENCY" in done.stdout) == (1, True)
