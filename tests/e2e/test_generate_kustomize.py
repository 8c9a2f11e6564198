"""``opm generate kustomize manifests`` as users run it: questions on a terminal, defaults elsewhere, errors."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kit.opm import FIXTURES, Opm
from tests.kit.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

BASE = "config/manifests/bases/dock-operator.clusterserviceversion.yaml"
COMMAND = ("generate", "kustomize", "manifests")


@pytest.fixture
def project(opm: Opm, tmp_path: Path) -> Opm:
    """Return the command in a project without a base."""
    directory = tmp_path / "project"
    shutil.copytree(FIXTURES / "dock-operator", directory, ignore=shutil.ignore_patterns("config"))
    return replace(opm, directory=directory)


def spec(project: Opm) -> Any:
    return yaml.safe_load((project.directory / BASE).read_text())["spec"]


@pytest.mark.slow
def test_questions_on_a_terminal(project: Opm) -> None:
    with Terminal(project.argv(*COMMAND, "-q"), project.directory, os.environ) as terminal:
        terminal.expect("Display name for the operator (required):")
        terminal.send("\n")
        terminal.expect("A value is required.")
        terminal.send("'The Docks'\n")
        terminal.expect("Description for the operator (required):")
        terminal.send("Repairs ships\n")
        terminal.expect("Name of the provider of the operator (required):")
        terminal.send("Example Shipping\n")
        terminal.expect("URL of the provider (optional):")
        terminal.send("\n")
        terminal.expect("list of keywords (required):")
        terminal.send("dock, ship,\n")
        terminal.expect("list of maintainers and their emails")
        terminal.send("Captain\n")
        terminal.expect("Write each maintainer as NAME:EMAIL.")
        terminal.send("Captain: captain@example.com\n")
        os.waitid(os.P_PID, terminal.pid, os.WEXITED | os.WNOWAIT)
    written = spec(project)
    assert written["displayName"] == "The Docks"
    assert written["description"] == "Repairs ships"
    assert written["provider"] == {"name": "Example Shipping"}
    assert written["keywords"] == ["dock", "ship"]
    assert written["maintainers"] == [{"name": "Captain", "email": "captain@example.com"}]


def test_no_questions_without_a_terminal(project: Opm) -> None:
    assert project(*COMMAND) == f"{BASE}: written\nconfig/manifests/kustomization.yaml: written\n"
    assert spec(project)["displayName"] == "Dock Operator"
    assert project(*COMMAND) == f"{BASE}: unchanged\n"
    assert project(*COMMAND, "--quiet") == ""


def test_answers_from_a_pipe(project: Opm) -> None:
    answers = "Docks\nRepairs.\nMe\nhttps://example.com\ndock\nMe:me@example.com\n"
    done = run_with_input(project, answers)
    assert done.returncode == 0, done.stderr
    assert spec(project)["provider"] == {"name": "Me", "url": "https://example.com"}


def test_missing_answers_change_nothing(project: Opm) -> None:
    done = run_with_input(project, "Docks\n")
    assert done.returncode == 1
    assert "Error: unexpected end of input\n  hint: pass --interactive=false" in done.stderr
    assert not (project.directory / "config").exists()


def run_with_input(project: Opm, answers: str) -> subprocess.CompletedProcess[str]:
    argv = project.argv(*COMMAND, "--interactive")
    return subprocess.run(
        argv, cwd=project.directory, input=answers, capture_output=True, text=True, timeout=60, check=False
    )


def test_missing_go_type_is_a_warning(project: Opm) -> None:
    (project.directory / "api" / "v1" / "drydock_types.go").unlink()
    done = project.attempt(*COMMAND)
    assert done.returncode == 0
    assert done.stderr == "Warning: DryDock.v1.docks.example.com: no Go type found in api\n"


@pytest.mark.parametrize("flag", ["--debug", "--verbose"])
def test_debug_flags_print_tracebacks(project: Opm, flag: str) -> None:
    (project.directory / "PROJECT").unlink()
    assert "Traceback" in project.attempt(*COMMAND, flag).stderr


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("PROJECT", None, "Error: PROJECT: no such file\n  hint: run the command in the root directory"),
        ("PROJECT", "projectName: \x1b[31m\nversion: [3]\n", "Error: PROJECT:"),
        ("PROJECT", "projectName: ../../x\nversion: '3'\n", "Error: '../../x': invalid package name"),
        ("api/v1/doc.go", "package", "Error: api/v1/doc.go:1:"),
        ("api/v1/doc.go", "// +groupName=a,b\npackage v1\n", "Error: api/v1/doc.go:1: invalid marker +groupName"),
        (BASE, "kind: ClusterServiceVersion\nspec: 1\n", f"Error: {BASE}:2:1: spec is a number, not a mapping"),
    ],
)
def test_invalid_files(project: Opm, file: str, content: str | None, message: str) -> None:
    path = project.directory / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_text(content)
    done = project.attempt(*COMMAND)
    assert done.returncode == 1
    assert done.stderr.startswith(message)
    assert "Traceback" not in done.stderr


SHARED_TYPE = """package value

// Source of a value.
type Source struct {
	// Raw value.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Value"
	Value string `json:"value,omitempty"`
}
"""
MONITORING = """package mon

import "example.com/reef/api/value"

// Spec of monitoring.
type Spec struct {
	Properties *value.Source `json:"properties,omitempty"`
}
"""
REEF = """// +groupName=ships.example.com
package v1

import (
	"example.com/reef/api/mon"
	"example.com/reef/api/value"
)

// ReefSpec is the spec.
type ReefSpec struct {
	// Proxy to use.
	Proxy *value.Source `json:"proxy,omitempty"`
	// Monitoring of the reef.
	Monitoring *mon.Spec `json:"monitoring,omitempty"`
}

// Reef is the Schema for the reefs API.
type Reef struct {
	Spec ReefSpec `json:"spec,omitempty"`
}
"""
REEF_PROJECT = """domain: example.com
layout: [go.kubebuilder.io/v4]
projectName: reef
repo: example.com/reef
resources:
- {api: {crdVersion: v1}, domain: example.com, group: ships, kind: Reef, path: example.com/reef/api/v1, version: v1}
version: "3"
"""


def test_generated_files_of_controller_tools_are_left_out_and_ambiguous_imports_are_reported(opm: Opm) -> None:
    """As in Dynatrace's operator: a deepcopy file repeats the import of a package that another package uses."""
    generated = 'package v1\n\nimport "example.com/reef/api/value"\n\nvar _ = value.Source{}\n'
    for name, content in {
        "PROJECT": REEF_PROJECT,
        "go.mod": "module example.com/reef\n",
        "api/value/value.go": SHARED_TYPE,
        "api/mon/mon.go": MONITORING,
        "api/v1/types.go": REEF,
        "api/v1/zz_generated.deepcopy.go": f"//go:build !ignore_autogenerated\n\n{generated}",
    }.items():
        (opm.directory / name).parent.mkdir(parents=True, exist_ok=True)
        (opm.directory / name).write_text(content)

    def generate() -> tuple[list[str], str]:
        done = opm.attempt(*COMMAND, "--interactive=false")
        assert done.returncode == 0, done.stderr
        base = opm.directory / "config/manifests/bases/reef.clusterserviceversion.yaml"
        (owned,) = yaml.safe_load(base.read_text())["spec"]["customresourcedefinitions"]["owned"]
        return [descriptor["path"] for descriptor in owned["specDescriptors"]], done.stderr

    assert generate() == (["monitoring.properties.value", "proxy.value"], "")
    (opm.directory / "api/v1/zz_generated.deepcopy.go").write_text(generated)
    paths, warning = generate()
    assert paths == ["proxy.value"]
    assert warning == (
        "Warning: Reef.v1.ships.example.com: value.Source is ambiguous, so descriptors of its fields are missing: "
        "value is imported by api/v1/types.go, api/v1/zz_generated.deepcopy.go\n"
    )
