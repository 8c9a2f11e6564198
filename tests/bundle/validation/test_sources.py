"""Finding and reading of bundles to validate."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

import pytest

from opmkit.bundle.errors import InvalidBundle, NotABundle
from opmkit.bundle.validation.sources import Source, expand_targets, read_files, read_labels
from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.imagetools.errors import InvalidReference

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.bundle.validation.sources import GetTool
    from opmkit.imagetools.reference import Reference

NO_TOOL = cast("GetTool", None)


def no_tags(reference: Reference) -> Iterator[str]:
    raise AssertionError(f"{reference} was listed")


def two_tags(_reference: Reference) -> list[str]:
    return ["1.0.0", "1.1.0"]


def write_files(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


@pytest.mark.parametrize("target", ["quay.io/me/demo", "quay.io/me/demo:*"])
def test_repository_stands_for_all_tags(target: str) -> None:
    assert [source.target for source in expand_targets([target], two_tags)] == [
        "quay.io/me/demo:1.0.0",
        "quay.io/me/demo:1.1.0",
    ]


def test_directories_images_and_lists(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    listed = tmp_path / "list"
    listed.write_text("# all of them\nquay.io/me/b:1   # and this\n\noci:layout:1\n")
    targets = [str(tmp_path / "demo"), "quay.io/me/a@sha256:" + "0" * 64, f"@{listed}"]
    assert [source.target for source in expand_targets(targets, no_tags)] == [
        *targets[:2],
        "quay.io/me/b:1",
        "oci:layout:1",
    ]


def write_operators(root: Path) -> Path:
    names = ("1.0.0/manifests/a.yaml", "1.0.0/metadata/annotations.yaml", "1.0.0/tests/a.yaml", ".git/manifests/a")
    write_files(root / "operators" / "demo", dict.fromkeys((*names, "1.1.0/manifests/b", "1.1.0/metadata/b"), b""))
    write_files(root / "operators" / "other", {"ci.yaml": b"{}", "catalog-templates/a.yaml": b"{}"})
    write_files(root / "operators" / "empty", {"README.md": b""})
    return root


@pytest.mark.parametrize("directory", ["operators/demo", "operators", "."])
def test_operators_stand_for_their_versions(directory: str, tmp_path: Path) -> None:
    target = write_operators(tmp_path) / directory
    sources = list(expand_targets([str(target)], no_tags))
    paths = ["demo", "demo/1.0.0", "demo/1.1.0", "other"][: 3 if directory.endswith("demo") else 4]
    assert [source.target for source in sources] == [str(tmp_path / "operators" / path) for path in paths]
    assert [source.operator for source in sources] == [True, False, False, True][: len(paths)]
    assert [source.of_operator for source in sources] == [False, True, True, False][: len(paths)]


def test_a_version_of_an_operator_is_a_bundle(tmp_path: Path) -> None:
    target = write_operators(tmp_path) / "operators" / "demo" / "1.0.0"
    assert list(expand_targets([str(target)], no_tags)) == [Source(str(target), target)]


def test_files_of_an_operator(tmp_path: Path) -> None:
    root = write_operators(tmp_path / "repository") / "operators" / "demo"
    write_files(tmp_path / "repository", {"config.yaml": b"organization: x"})
    manifests = {"csv.yaml": b"kind: ClusterServiceVersion", "b.clusterserviceversion.yml": b"{}", "crd.yaml": b""}
    write_files(root / "1.1.0" / "manifests", manifests)
    write_files(root / "1.0.0" / "manifests", {"csv.yaml": b"kind: ClusterServiceVersion"})
    (tmp_path / "secret").write_text("password")
    (root / "ci.yaml").symlink_to(tmp_path / "secret")
    (root / "1.1.0" / "release-config.yml").write_text("{}")
    read = read_files(NO_TOOL, Source("demo", root, operator=True))
    assert read.operator == "demo"
    assert sorted(read.files) == [
        "../../config.yaml",
        "1.0.0/manifests/csv.yaml",
        "1.0.0/metadata/annotations.yaml",
        "1.1.0/manifests/b.clusterserviceversion.yml",
        "1.1.0/release-config.yml",
    ]
    renamed = root.rename(root.with_name("renamed"))
    assert read_files(NO_TOOL, Source("demo", renamed, operator=True)).digest != read.digest


@pytest.mark.parametrize(
    ("target", "error"), [("./nowhere", NotABundle), ("Quay.io/Up:1", InvalidReference), ("@gone", DiskError)]
)
def test_targets_without_a_bundle(target: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        list(expand_targets([target], no_tags))


def test_nested_lists_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "list").write_text(f"@{tmp_path}/list\n")
    with pytest.raises(NotABundle, match="nested list"):
        list(expand_targets([f"@{tmp_path}/list"], no_tags))


@pytest.mark.parametrize("content", ["", "\n\r\n", "# none\n", "\f\v "])
def test_empty_lists_are_rejected(tmp_path: Path, content: str) -> None:
    """Otherwise, a pipeline whose list was not written would succeed."""
    (tmp_path / "list").write_text(content)
    with pytest.raises(NotABundle, match="list: empty list"):
        list(expand_targets([f"@{tmp_path}/list"], no_tags))


def test_links_in_the_directory_are_read(tmp_path: Path) -> None:
    root = write_files(tmp_path / "demo", {"manifests/a.yaml": b"a", "v1/deep/b.yaml": b"b"})
    (root / "manifests" / "in.yaml").symlink_to("a.yaml")
    (root / "manifests" / "loop").symlink_to(root)
    (root / "metadata").symlink_to("v1")
    bundle = read_files(NO_TOOL, Source("demo", root))
    assert bundle.files == {
        "manifests/a.yaml": b"a",
        "manifests/in.yaml": b"a",
        "metadata/deep/b.yaml": b"b",
        "v1/deep/b.yaml": b"b",
    }
    assert {"manifests", "metadata", "metadata/deep"} <= bundle.directories
    assert not bundle.bare


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("manifests/sub/z.yaml", "secret"),
        ("manifests/z.yaml", "nowhere"),
        ("metadata/z.yaml", "secret"),
        ("tests/z.yaml", "secret"),
        ("metadata", "directory"),
        ("tests", "directory"),
        ("z.yaml", "secret"),
        ("sub/z.yaml", "secret"),
    ],
)
def test_links_out_of_the_bundle_are_refused(tmp_path: Path, link: str, target: str) -> None:
    bare = link.endswith("z.yaml") and not link.startswith(("manifests/", "metadata/", "tests/"))
    files = {"csv.yaml": b"a"} if bare else {"manifests/a.yaml": b"a"}
    root = write_files(tmp_path / "parent" / "demo", files)
    write_files(tmp_path, {"secret": b"secret", "directory/b.yaml": b"b"})
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to(tmp_path / target)
    with pytest.raises(InvalidBundle, match=f"{link}: "):
        read_files(NO_TOOL, Source("demo", root))


def test_links_next_to_the_bundle_are_ignored(tmp_path: Path) -> None:
    root = write_files(tmp_path / "demo", {"manifests/a.yaml": b"a", "docs/b.md": b"b"})
    (root / "docs" / "out").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    assert read_files(NO_TOOL, Source("demo", root)).files == {"manifests/a.yaml": b"a", "docs/b.md": b"b"}


def test_bare_manifests_directory(tmp_path: Path) -> None:
    assert read_files(NO_TOOL, Source("demo", write_files(tmp_path, {"csv.yaml": b"a"}))).bare


def test_file_is_not_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    with pytest.raises(NotABundle, match="is a file") as raised:
        list(expand_targets([str(tmp_path / "README.md")], no_tags))
    assert f"@{tmp_path}" in str(raised.value.hint)


def test_other_directories_and_large_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(NotABundle):
        read_files(NO_TOOL, Source("demo", write_files(tmp_path / "none", {"src/main.go": b"package main"})))
    large = write_files(tmp_path / "large", {"manifests/a.yaml": b""})
    with (large / "manifests/a.yaml").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(LimitExceeded):
        read_files(NO_TOOL, Source("demo", large))
    with pytest.raises(NotABundle, match="no labels"):
        read_labels(NO_TOOL, Source("demo", large))
