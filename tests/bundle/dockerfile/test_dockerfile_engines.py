"""Images from Dockerfiles equal those that container engines build."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opmkit.bundle.dockerfile.build import dockerfile_build_spec
from opmkit.bundle.errors import InvalidBundle, InvalidDockerfile
from opmkit.imagetools.image import Image
from opmkit.imagetools.reference import parse_image_reference
from tests.bundle.dockerfile.projects import SCAFFOLDED, Project
from tests.kit.image_files import ImageFile, image_files
from tests.kit.requirements import require

if TYPE_CHECKING:
    from opmkit.imagetools.tools.registry import RegistryTool
    from tests.kit.engines import DockerDaemon, Engine

NAME = "localhost/harbor-bundle:1"
BUILDAH_REFUSES = r"no items matching glob .* filtered out using"
"""The error for a pattern that matches only ignored files and a directory of such; docker copies nothing."""
Result = tuple[dict[str, str], dict[str, ImageFile]]


def build(project: Project) -> Result:
    with tempfile.TemporaryDirectory() as scratch:
        spec = dockerfile_build_spec(project.dockerfile, project.directory).spec
        return summary(spec.build_on(Image.scratch(), Path(scratch)))


def build_with_buildah(engine: Engine, tool: RegistryTool, project: Project, *flags: str) -> Result:
    layout = project.directory.with_name("layout")
    shutil.rmtree(layout, ignore_errors=True)
    commands = (
        ("bud", "--quiet", "--layers=false", "--identity-label=false", *flags, "-f", str(project.dockerfile)),
        ("push", "--quiet", NAME, f"oci:{layout}:1"),
    )
    (bud, push) = commands
    engine.run(*bud, "--tag", NAME, str(project.directory))
    engine.run(*push)
    return summary(tool.inspect(parse_image_reference(f"oci:{layout}:1")))


def build_with_docker(daemon: DockerDaemon, tool: RegistryTool, project: Project) -> Result:
    archive = project.directory.with_name("image.tar")
    daemon.run("build", "--quiet", "-f", str(project.dockerfile), "-t", NAME, str(project.directory))
    daemon.run("save", "--output", str(archive), NAME)
    return summary(tool.inspect(parse_image_reference(f"docker-archive:{archive}")))


def summary(image: Image) -> Result:
    return dict(image.labels), image_files(image)


@pytest.fixture
def buildah(container_storage: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(container_storage, "program", require("buildah"))
    return container_storage


def test_scaffolded_dockerfile_with_buildah(buildah: Engine, tool: RegistryTool, project: Project) -> None:
    project.write("bundle.Dockerfile", SCAFFOLDED)
    labels, files = build(project)

    assert (labels, files) == build_with_buildah(buildah, tool, project)
    assert set(files) == {
        "manifests/csv.yaml",
        "manifests/crd.yaml",
        "metadata/annotations.yaml",
        "tests/scorecard/config.yaml",
    }
    assert {file.mode for file in files.values()} == {0o644}


def test_scaffolded_dockerfile_with_docker(docker_daemon: DockerDaemon, tool: RegistryTool, project: Project) -> None:
    project.write("bundle.Dockerfile", SCAFFOLDED)
    assert build(project) == build_with_docker(docker_daemon, tool, project)


def test_pattern_for_ignored_files_and_a_directory_of_such(
    docker_daemon: DockerDaemon, buildah: Engine, tool: RegistryTool, project: Project
) -> None:
    project.write("other/sub/a.yaml", "ignored")
    project.write("other/b.yaml", "ignored")
    project.write(".dockerignore", "other/**/*.yaml")
    project.write("bundle.Dockerfile", "FROM scratch\nCOPY . /manifests/\nCOPY . /metadata/\nCOPY other/[^a]* /\n")
    assert build(project) == build_with_docker(docker_daemon, tool, project)
    with pytest.raises(RuntimeError, match=BUILDAH_REFUSES):
        build_with_buildah(buildah, tool, project)


NAMES = st.sampled_from(
    ["a.yaml", "b.yaml", ".hidden", "run.sh", "sub/a.yaml", "sub/deep/c.yaml", "other/d.txt", "x y"]
)
SOURCES = st.sampled_from(
    (
        *(".", "bundle", "bundle/", "/bundle/sub", "bundle/a.yaml", "./bundle/b.yaml", "bundle/*.yaml"),
        *("bundle/[!a-b]*", "bundle/[^a]*", "bundle/su?", "bundle/*", "bundle/*/*.yaml", "bundle/x*"),
        *("bundle/sub/deep/../a.yaml", "$DIR"),
    )
)
DESTINATIONS = st.sampled_from(["/", "/manifests", "/manifests/", "manifests/a.yaml", "/x/y/", "./z", "/x/../w/", "."])
IGNORED = st.sampled_from(
    (
        *("", "bundle/sub", "*.yaml", "**/*.yaml", "bundle/*\n!bundle/a.yaml", "*\n!bundle/sub", "**/deep"),
        "# none\n/bundle/b*",
    )
)
FLAGS = st.sampled_from(["", "", "", "--chmod=0600 ", "--chmod=755 ", "--chown=0:0 "])
VALUES = st.sampled_from(
    (
        *("plain", '"two words"', "'single $DIR'", '"double $DIR"', "a\\ b", "${DIR}/x", "${NONE:-default}"),
        *('"\\"q\\" \\\\"', "${DIR:+set}", "$NONE", "\\$DIR", '"a\'b"', "a=b", "é"),
    )
)
KEYS = st.sampled_from(["a", "b.c", "d-e", '"f"'])
SPACES = st.sampled_from([" ", "  ", " \\\n  ", " \\\n# comment\n  "])
COPIES = st.tuples(st.sampled_from(["COPY", "copy", "ADD"]), FLAGS, SPACES, st.lists(SOURCES, min_size=1, max_size=2))
INSTRUCTIONS = st.one_of(
    st.builds(lambda copy, target: f"{copy[0]} {copy[1]}{copy[2].join([*copy[3], target])}", COPIES, DESTINATIONS),
    st.builds(
        lambda pairs, spaces: f"LABEL {spaces.join(f'{key}={value}' for key, value in pairs)}",
        st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3),
        SPACES,
    ),
)


def check_random(buildah: Engine, tool: RegistryTool, names: list[str], ignored: str, lines: list[str]) -> None:
    """Compare a random Dockerfile; what opmkit refuses is not compared."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Project(Path(scratch, "project"))
        project.write("bundle/a.yaml", "content of a.yaml")
        for name in names:
            project.write(f"bundle/{name}", f"content of {name}", mode=0o755 if name.endswith(".sh") else 0o644)
        project.write(".dockerignore", ignored)
        project.write(
            "bundle.Dockerfile",
            "\n".join(["FROM scratch", "ARG DIR=bundle/sub", *lines, "COPY . /manifests/", "COPY . /metadata/"]),
        )
        try:
            own = build(project)
        except (InvalidDockerfile, InvalidBundle):
            return
        try:
            theirs = build_with_buildah(buildah, tool, project)
        except RuntimeError as error:
            if any("/" in name for name in names) and re.search(BUILDAH_REFUSES, str(error)):
                return
            raise
        assert own == theirs


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAMES, unique=True, max_size=6), IGNORED, st.lists(INSTRUCTIONS, min_size=1, max_size=4))
def test_random_dockerfiles(
    buildah: Engine, tool: RegistryTool, names: list[str], ignored: str, lines: list[str]
) -> None:
    check_random(buildah, tool, names, ignored, lines)
