"""The Tekton task in the examples, run with its parameters."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.kit.installed import ROOT
from tests.kit.pipelines import Runner, run_tekton_task

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm

TASK = "run-opm-command"
RENDER = ["render", "catalog", "-o", "yaml"]
IDMS = """\
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: mirrors}
spec:
  imageDigestMirrors:
  - {source: registry.redhat.io/reef, mirrors: [quay.io/me]}
  - {source: registry.redhat.io/reef/special, mirrors: [quay.io/me/a.b]}
"""


@pytest.fixture
def runner(newcomer: InstalledOpm, tmp_path: Path) -> Runner:
    """Return a runner with a catalog in the workspace."""
    shutil.copytree(ROOT / "fixtures" / "catalogs" / "valid", newcomer.directory / "catalog")
    return Runner(newcomer.bin, tmp_path, newcomer.directory, {})


def test_the_output_is_written_to_the_file(runner: Runner) -> None:
    done = run_tekton_task(runner, TASK, OPM_ARGS=RENDER, OPM_OUTPUT_PATH="v4.18/out put/catalog.yaml")
    assert done.returncode == 0, done.stderr
    assert "schema: olm.package" in (runner.directory / "v4.18/out put/catalog.yaml").read_text()


def test_a_failed_command_leaves_the_file(runner: Runner) -> None:
    (runner.directory / "catalog.yaml").write_text("before")
    done = run_tekton_task(runner, TASK, OPM_ARGS=["render", "missing"], OPM_OUTPUT_PATH="catalog.yaml")
    assert done.returncode == 1
    assert "missing" in done.stderr
    assert (runner.directory / "catalog.yaml").read_text() == "before"


@pytest.mark.parametrize("path", ["/tmp/catalog.yaml", "../catalog.yaml", "a/../../b"])
def test_paths_outside_the_workspace_are_rejected(runner: Runner, path: str) -> None:
    done = run_tekton_task(runner, TASK, OPM_ARGS=RENDER, OPM_OUTPUT_PATH=path)
    assert done.returncode == 2
    assert f"Error: {path}: not a relative path in the workspace" in done.stderr


@pytest.mark.parametrize(("arguments", "path"), [([], "catalog.yaml"), (RENDER, "")])
def test_nothing_is_run_without_arguments_or_output(runner: Runner, arguments: list[str], path: str) -> None:
    done = run_tekton_task(runner, TASK, OPM_ARGS=arguments, OPM_OUTPUT_PATH=path)
    assert done.returncode == 0
    assert not (runner.directory / "catalog.yaml").exists()


def test_mirrors_are_replaced_by_their_sources(runner: Runner) -> None:
    (runner.directory / ".tekton").mkdir()
    (runner.directory / ".tekton" / "images-mirror-set.yaml").write_text(IDMS)
    template = runner.directory / "template.yaml"
    template.write_text(
        "- quay.io/me/x:1\n- quay.io/me/a.b:1\n- quay.io/me/aXb:1\n- quay.io/mend/x:1\n- my.quay.io/me/x\n"
    )
    done = run_tekton_task(
        runner, TASK, OPM_ARGS=["version"], OPM_OUTPUT_PATH="version", FILE_TO_UPDATE_PULLSPEC="template.yaml"
    )
    assert done.returncode == 0, done.stderr
    assert template.read_text().split("\n- ") == [
        "- registry.redhat.io/reef/x:1",
        "registry.redhat.io/reef/special:1",
        "registry.redhat.io/reef/aXb:1",
        "quay.io/mend/x:1",
        "my.quay.io/me/x\n",
    ]
