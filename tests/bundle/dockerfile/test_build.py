"""Build specs of Dockerfiles, and warnings about the bundles."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.dockerfile.build import dockerfile_build_spec
from opmkit.bundle.errors import InvalidBundle, InvalidDockerfile
from opmkit.imagetools.image import Image
from tests.bundle.dockerfile.projects import LABELS, SCAFFOLDED, Project

if TYPE_CHECKING:
    from pathlib import Path


def test_scaffolded_dockerfile(project: Project) -> None:
    built = project.build(SCAFFOLDED)

    assert built.warnings == ()
    assert built.base == ""
    assert LABELS.items() <= built.spec.labels.items()
    assert len(built.spec.labels) == 8


def test_images_are_reproducible(project: Project, tmp_path: Path) -> None:
    first = project.build(SCAFFOLDED).spec.build_on(Image.scratch(), tmp_path)
    copy = Project(tmp_path / "copy")
    shutil.copytree(project.directory, copy.directory)
    for path in copy.directory.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o770 if path.is_dir() else 0o660)

    assert copy.build(SCAFFOLDED).spec.build_on(Image.scratch(), tmp_path).digest == first.digest


def test_labels_are_overridden(project: Project) -> None:
    project.write("bundle.Dockerfile", SCAFFOLDED)
    key = "operators.operatorframework.io.bundle.channels.v1"
    built = dockerfile_build_spec(
        project.dockerfile, project.directory, labels={key: "beta", "vendor": "me"}, created=1
    )

    assert (built.spec.labels[key], built.spec.labels["vendor"], built.spec.created) == ("beta", "me", 1)
    assert built.warnings == (f"{project.dockerfile}: the label {key} is 'beta', but the annotation is 'alpha'",)


def test_missing_labels(project: Project) -> None:
    built = project.build("FROM scratch\nCOPY bundle /\n", UNUSED="x")
    assert built.warnings == (
        f"{project.dockerfile}: the build argument UNUSED is not used",
        *(f"{project.dockerfile}: the label {key} is missing" for key in LABELS),
    )


def test_missing_annotations(project: Project) -> None:
    project.write("bundle/metadata/annotations.yaml", "annotations: {}\n")
    (warning,) = project.build(SCAFFOLDED).warnings
    assert "no annotations for the package and channels found" in warning


@pytest.mark.parametrize("name", ["manifests", "metadata"])
def test_missing_directories(project: Project, name: str) -> None:
    with pytest.raises(InvalidBundle, match=f"the image has no files in /{name}/"):
        project.build(SCAFFOLDED.replace(f"COPY bundle/{name} /{name}/", ""))


@pytest.mark.parametrize("ignored", ["**\n!**/*.go\n", "bundle/metadata\n", "**\n!**/*.go\n!bundle/manifests/**\n"])
def test_directories_that_the_ignore_file_excludes(project: Project, ignored: str) -> None:
    project.write(".dockerignore", ignored)
    with pytest.raises(InvalidDockerfile, match=r"COPY: 'bundle/m\w+' is excluded by .*\.dockerignore") as failure:
        project.build(SCAFFOLDED)
    for line in ("!bundle/manifests/**", "!bundle/metadata/**", "!bundle/tests/scorecard/**"):
        ignored += f"{line}\n"
    assert "add the line !bundle/m" in str(failure.value.hint)
    project.write(".dockerignore", ignored)
    assert project.build(SCAFFOLDED).warnings == ()


def test_files_that_the_ignore_file_excludes(project: Project) -> None:
    project.write(".dockerignore", "bundle/metadata/*\n")
    with pytest.raises(InvalidBundle, match="the image has no files in /metadata/") as failure:
        project.build(SCAFFOLDED)
    assert ".dockerignore excludes files" in str(failure.value.hint)


def test_base_images_are_not_checked(project: Project) -> None:
    built = project.build("FROM quay.io/me/base\nLABEL a=b\n")
    assert (built.base, built.warnings, built.spec.files) == ("quay.io/me/base", (), ())


def test_missing_context(project: Project) -> None:
    project.write("bundle.Dockerfile", SCAFFOLDED)
    with pytest.raises(InvalidDockerfile, match="none: no such directory"):
        dockerfile_build_spec(project.dockerfile, project.directory / "none")
