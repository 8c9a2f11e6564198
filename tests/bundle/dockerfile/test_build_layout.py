"""Copying of files by the rules of COPY."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.errors import InvalidDockerfile
from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.image import Image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bundle.dockerfile.projects import Project


@pytest.fixture
def project(project: Project) -> Project:
    for name in ("d/a.yaml", "d/b.yaml", "d/sub/c.yaml", "d/.hidden", "LICENSE"):
        project.write(name)
    return project


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("COPY d /x", {"x/a.yaml": "d/a.yaml", "x/b.yaml": "d/b.yaml", "x/.hidden": "d/.hidden"}),
        ("COPY d/ x", {"x/sub/c.yaml": "d/sub/c.yaml"}),
        ("COPY LICENSE /", {"LICENSE": "LICENSE"}),
        ("COPY LICENSE .", {"LICENSE": "LICENSE"}),
        ("COPY LICENSE /licenses/", {"licenses/LICENSE": "LICENSE"}),
        ("COPY LICENSE /licenses/.", {"licenses/LICENSE": "LICENSE"}),
        ("COPY LICENSE /copying", {"copying": "LICENSE"}),
        ("COPY /LICENSE /../copying", {"copying": "LICENSE"}),
        ("COPY d/a.yaml d/sub /x/", {"x/a.yaml": "d/a.yaml", "x/c.yaml": "d/sub/c.yaml"}),
        ("COPY d/*.yaml /x/", {"x/a.yaml": "d/a.yaml", "x/b.yaml": "d/b.yaml"}),
        ("COPY d/[^a].yaml /x/", {"x/b.yaml": "d/b.yaml"}),
        ("COPY d/?.yaml LICEN* /x/", {"x/LICENSE": "LICENSE"}),
        ("COPY */sub /x/", {"x/c.yaml": "d/sub/c.yaml"}),
        ("COPY d/sub/../a.yaml /x/", {"x/a.yaml": "d/a.yaml"}),
        ("COPY d/a.yaml /x/LICENSE\nCOPY LICENSE /x", {"x/LICENSE": "LICENSE"}),
    ],
)
def test_paths(project: Project, instruction: str, expected: dict[str, str]) -> None:
    assert expected.items() <= project.paths(instruction).items()


@pytest.mark.parametrize(
    ("instruction", "problem"),
    [
        ("COPY none /x/", "'none' does not exist in "),
        ("COPY none* /x/", " matches 'none*'"),
        ("COPY d/[a /x/", "invalid pattern 'd/[a'"),
        ("COPY d/[z-a] /x/", "invalid pattern 'd/[z-a]'"),
        ("COPY ../outside /x/", "'../outside' is outside of the build context"),
        ("COPY d/../../outside /x/", "is outside of the build context"),
        ("COPY d/a.yaml d/b.yaml /x", "the destination '/x' of several files is not a directory"),
        ("COPY d/*.yaml /x", "the destination '/x' of several files is not a directory"),
        ("COPY LICENSE /x\nCOPY d /x", "/x: both a file and a directory"),
        (
            "COPY d /x\nCOPY LICENSE /x/sub\nCOPY LICENSE /x/sub/LICENSE/y",
            "/x/sub/LICENSE: both a file and a directory",
        ),
        ("COPY --chmod=0600 d /x", "unsupported mode of the directory 'd'"),
    ],
)
def test_invalid_copies(project: Project, instruction: str, problem: str) -> None:
    with pytest.raises(InvalidDockerfile, match=r"bundle.Dockerfile:[456]: COPY: ") as failure:
        project.paths(instruction)
    assert problem in failure.value.message


def test_modes(project: Project) -> None:
    for name, mode in {"private": 0o600, "run": 0o755, "group": 0o664}.items():
        project.write(f"modes/{name}", mode=mode)
    built = project.build("FROM scratch\nCOPY bundle /\nCOPY modes /x/\nCOPY --chmod=640 modes/run /y/\n")
    modes = {file.path: file.mode for file in built.spec.files}

    assert modes["x/private"] == modes["x/group"] == modes["manifests/csv.yaml"] == 0o644
    assert (modes["x/run"], modes["y/run"]) == (0o755, 0o640)


def test_links_inside_the_copied_directory_are_replaced(project: Project) -> None:
    (project.directory / "d" / "linked.yaml").symlink_to("sub/c.yaml")
    (project.directory / "link").symlink_to("d/a.yaml")
    (project.directory / "dlink").symlink_to("d")
    assert project.paths("COPY d /x/")["x/linked.yaml"] == "d/sub/c.yaml"
    assert project.paths("COPY link /x/") == {"x/link": "d/a.yaml"}
    assert project.paths("COPY dlink/sub /x/") == {"x/c.yaml": "d/sub/c.yaml"}


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../LICENSE", "sub", "missing", "link", "../../outside", "../d/a.yaml"]
)
def test_other_links_are_refused(project: Project, target: str) -> None:
    (project.directory / "d" / "link").symlink_to(target)
    with pytest.raises(
        InvalidDockerfile, match=r"COPY: unsupported symbolic link '.*/d/link': its target is not copied"
    ):
        project.paths("COPY d /x/")


@pytest.mark.parametrize("source", ["out", "out/sub", "*/sub/secret"])
def test_links_to_the_outside_are_not_followed(project: Project, source: str, tmp_path: Path) -> None:
    (tmp_path / "outside" / "sub").mkdir(parents=True)
    (tmp_path / "outside" / "sub" / "secret").write_text("x")
    (project.directory / "out").symlink_to("../outside")
    with pytest.raises(InvalidDockerfile, match=r"is outside of the build context|no file of .* matches"):
        project.paths(f"COPY {source} /x/")


def test_special_files_are_refused(project: Project) -> None:
    os.mkfifo(project.directory / "d" / "pipe")
    for source in ("d", "d/pipe"):
        with pytest.raises(InvalidDockerfile, match="COPY: unsupported kind of file"):
            project.paths(f"COPY {source} /x/")


def test_archives_are_only_copied_by_copy(project: Project) -> None:
    with tarfile.open(project.directory / "a.tgz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("x"), io.BytesIO())
    (project.directory / "a.gz").write_bytes(b"\x1f\x8b\x08 not gzip")
    (project.directory / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd...")
    for name in ("a.tgz", "a.zst"):
        assert project.paths(f"COPY {name} /x/") == {f"x/{name}": name}
        with pytest.raises(InvalidDockerfile, match="ADD: unsupported archive"):
            project.paths(f"ADD {name} /x/")
    assert project.paths("ADD a.gz LICENSE /x/") == {"x/a.gz": "a.gz", "x/LICENSE": "LICENSE"}


def test_whiteouts_are_refused(project: Project, tmp_path: Path) -> None:
    project.write("d/.wh.a")
    spec = project.build("FROM scratch\nCOPY bundle /\nCOPY d /x/\n").spec
    with pytest.raises(InvalidImage, match="invalid path for a layer"):
        spec.build_on(Image.scratch(), tmp_path)


@pytest.mark.parametrize(
    ("ignored", "expected"),
    [
        ("d/a.yaml", {"x/b.yaml", "x/.hidden", "x/sub/c.yaml"}),
        ("*.yaml", {"x/a.yaml", "x/b.yaml", "x/.hidden", "x/sub/c.yaml"}),
        ("**/*.yaml\n!bundle/**", {"x/.hidden"}),
        ("# comment\n\n*\n!bundle\n!d/sub\n", {"x/sub/c.yaml"}),
        ("d/s*\nd/.*", {"x/a.yaml", "x/b.yaml"}),
    ],
)
@pytest.mark.parametrize("name", [".dockerignore", ".containerignore", "bundle.Dockerfile.dockerignore"])
def test_ignored_files(project: Project, name: str, ignored: str, expected: set[str]) -> None:
    project.write(name, ignored)
    assert set(project.paths("COPY d /x/")) == expected


def test_the_ignore_file_of_the_dockerfile_comes_first(project: Project) -> None:
    project.write(".dockerignore", "d")
    project.write("bundle.Dockerfile.dockerignore", "d/sub")
    assert "x/a.yaml" in project.paths("COPY d /x/")


@pytest.mark.parametrize("source", ["d", "d/sub/", "d/a.yaml"])
def test_ignored_sources(project: Project, source: str) -> None:
    ignore_file = project.write(".dockerignore", "d")
    with pytest.raises(InvalidDockerfile, match=f"'{source}' is excluded by {ignore_file}"):
        project.paths(f"COPY {source} /x/")


@pytest.mark.parametrize("content", ["[", "!", "\udcff"])
def test_invalid_ignore_files(project: Project, content: str) -> None:
    (project.directory / ".dockerignore").write_text(content, errors="surrogateescape")
    with pytest.raises(InvalidDockerfile, match=r"\.dockerignore: "):
        project.paths("COPY d /x/")


def test_directories_without_files(project: Project) -> None:
    (project.directory / "empty").mkdir()
    built = project.build("FROM scratch\nCOPY bundle /\nCOPY empty /tests/\n")
    assert f"{project.dockerfile}:3: COPY: no files found in 'empty'" in built.warnings


@pytest.mark.parametrize("destination", ["/usr/share/x/", "/etc", "/tmp/x"])
def test_system_directories_of_a_base_image(project: Project, destination: str) -> None:
    text = f"FROM quay.io/me/base\nCOPY d {destination}\n"
    with pytest.raises(InvalidDockerfile, match="COPY: unsupported destination below /"):
        project.build(text)


def test_destination_that_may_be_a_directory_of_a_base_image(project: Project) -> None:
    with pytest.raises(InvalidDockerfile, match="unsupported destination '/licenses', which may be a directory"):
        project.build("FROM quay.io/me/base\nCOPY LICENSE /licenses\n")
    built = project.build("FROM quay.io/me/base\nCOPY LICENSE /licenses/\n")
    assert [file.path for file in built.spec.files] == ["licenses/LICENSE"]
    assert built.base == "quay.io/me/base"
