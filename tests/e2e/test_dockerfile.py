"""``opm bundle build --file``: bundles from Dockerfiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bundle.dockerfile.projects import SCAFFOLDED, Project

if TYPE_CHECKING:
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

BUILD = ("bundle", "build", "-f", "bundle.Dockerfile")


@pytest.fixture
def project(opm: Opm) -> Project:
    """Return a project in the working directory of the command."""
    project = Project.create(opm.directory)
    project.write("bundle.Dockerfile", SCAFFOLDED)
    return project


@pytest.mark.usefixtures("project")
def test_scaffolded_dockerfile(opm: Opm) -> None:
    built = opm(*BUILD, "-t", "oci:one:1", "--tag", "oci:two:1", ".").splitlines()
    again = opm("alpha", *BUILD, "-t", "oci:three:1").splitlines()

    digests = [line.partition("@")[2] for line in (*built, *again)]
    assert [line.partition("@")[0] for line in (*built, *again)] == ["oci:one:1", "oci:two:1", "oci:three:1"]
    assert len(set(digests)) == 1
    assert digests[0].startswith("sha256:")
    assert opm("bundle", "unpack", "--skip-validation", "oci:one:1", "--out", "out") == ""
    assert (opm.directory / "out/tests/scorecard/config.yaml").read_text() == "kind: Configuration\n"


def test_generated_dockerfiles_give_the_same_image(opm: Opm) -> None:
    without = opm.build_bundle("0.1.0", "oci:one:1").strip()
    again = opm(*BUILD, "-t", "oci:two:1").strip()
    assert again.partition("@")[2] == without.partition("@")[2] != ""


@pytest.mark.parametrize(
    ("ignored", "source"),
    [("**\n\n!**/*.go\n**/*_test.go\n\n!go.mod\n", "manifests"), ("**\n!**/*.go\n!bundle/manifests/**\n", "metadata")],
)
def test_the_ignore_file_that_kubebuilder_scaffolds_is_named(
    opm: Opm, project: Project, ignored: str, source: str
) -> None:
    project.write("bundle.Dockerfile", SCAFFOLDED.replace("COPY bundle/tests/scorecard /tests/scorecard/\n", ""))
    project.write(".dockerignore", ignored)
    done = opm.attempt(*BUILD, "-t", "oci:out:1")
    assert (done.returncode, done.stdout) == (1, "")
    first, hint = done.stderr.splitlines()
    assert first.endswith(f"COPY: 'bundle/{source}' is excluded by .dockerignore")
    assert hint == f"  hint: add the line !bundle/{source}/** to .dockerignore"
    assert not (opm.directory / "out").exists()
    project.write(".dockerignore", f"{ignored}!bundle/manifests/**\n!bundle/metadata/**\n")
    assert opm(*BUILD, "-t", "oci:out:1").startswith("oci:out:1@sha256:")


@pytest.mark.usefixtures("project")
def test_push(opm_http: Opm, registry: Registry) -> None:
    name = f"{registry.host}/dockerfile/harbor:1"
    assert opm_http(*BUILD, "-t", name, "--push").startswith(f"{registry.host}/dockerfile/harbor:1@sha256:")
    assert "csv.yaml" in opm_http("bundle", "extract", name, "--configmapname", "x", "--dry-run")


def test_instructions_that_need_an_engine(opm: Opm, project: Project) -> None:
    project.write("bundle.Dockerfile", f"{SCAFFOLDED}RUN touch /x\n")
    done = opm.attempt(*BUILD, "-t", "oci:out:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: bundle.Dockerfile:19: RUN: unsupported instruction; supported are FROM, ARG, LABEL, COPY and ADD\n"
        "  hint: remove it, or build the image with 'podman build' or 'docker build'\n"
    )
    assert not (opm.directory / "out").exists()


def test_empty_variable(opm: Opm, project: Project) -> None:
    project.write("bundle.Dockerfile", f"ARG BASE\n{SCAFFOLDED.replace('scratch', '$BASE')}")
    done = opm.attempt(*BUILD, "-t", "oci:out:1")
    assert done.stderr.endswith("FROM: empty name '$BASE'\n  hint: set it with --build-arg\n")
    opm(*BUILD, "-t", "oci:out:1", "--build-arg", "BASE=scratch")
    with_environment = opm.attempt(*BUILD, "-t", "oci:out:1", "--build-arg", "BASE")
    assert with_environment.returncode == 1


@pytest.mark.usefixtures("project")
def test_warnings(opm: Opm) -> None:
    label = "operators.operatorframework.io.bundle.package.v1"
    done = opm.attempt(*BUILD, "-t", "oci:out:1", "--label", f"{label}=a,b", "--build-arg", "X=1")
    assert done.returncode == 0
    assert done.stderr == (
        "Warning: bundle.Dockerfile: the build argument X is not used\n"
        f"Warning: bundle.Dockerfile: the label {label} is 'a,b', but the annotation is 'harbor'\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-t", "oci:x:1"), 'required flag(s) "directory" not set'),
        ((), 'required flag(s) "directory", "tag" not set'),
        (("-f", "bundle.Dockerfile"), 'required flag(s) "tag" not set'),
        (("-f", "bundle.Dockerfile", "-d", "bundle/manifests"), "--file and --directory are mutually exclusive"),
        (("-f", "bundle.Dockerfile", "-p", "x"), "--file and --package are mutually exclusive"),
        (("-d", "bundle/manifests", "-t", "oci:x:1", "--label", "a=b"), "--label requires --file"),
        (("-d", "bundle/manifests", "-t", "oci:x:1", "."), "CONTEXT requires --file"),
        (("-f", "bundle.Dockerfile", "-t", "oci:x:1", "--label", "=b"), "--label: empty name"),
        (("-f", "none", "-t", "oci:x:1"), "none: No such file or directory"),
        (("-f", "bundle.Dockerfile", "-t", "oci:x:1", "none"), "none: no such directory"),
        (
            ("-f", "bundle.Dockerfile", "-t", "oci:x:1", "bundle"),
            "bundle.Dockerfile:16: COPY: 'bundle/manifests' does not",
        ),
    ],
)
@pytest.mark.usefixtures("project")
def test_invalid_command_lines(opm: Opm, arguments: tuple[str, ...], message: str) -> None:
    done = opm.attempt("bundle", "build", *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {message}")
    assert "  hint: " in done.stderr
