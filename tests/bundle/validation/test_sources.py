"""What is named becomes bundles; their files are read within bounds; verdicts are kept."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from opmkit.bundle.cache import files_digest
from opmkit.bundle.errors import NotABundle
from opmkit.bundle.finding import Finding
from opmkit.bundle.validation.bundle_view import BundleView, Options
from opmkit.bundle.validation.cache import ValidationCache
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.parallel_validator import ValidatorConfig
from opmkit.bundle.validation.sources import Source, expand_targets, read_files, read_labels
from opmkit.bundle.validation.validator import BundleValidator
from opmkit.imagetools.errors import ImageToolsError, InvalidReference, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.bundle.validation.result import ValidationResult
    from opmkit.bundle.validation.sources import GetTool
    from opmkit.imagetools.reference import Reference

NO_TOOL = cast("GetTool", None)


def no_tags(reference: Reference) -> Iterator[str]:
    raise AssertionError(f"{reference} was listed")


def two_tags(_reference: Reference) -> list[str]:
    return ["1.0.0", "1.1.0"]


def bundle_at(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


@pytest.mark.parametrize("target", ["quay.io/me/demo", "quay.io/me/demo:*"])
def test_a_repository_is_all_of_its_tags(target: str) -> None:
    assert [source.target for source in expand_targets([target], two_tags)] == [
        "quay.io/me/demo:1.0.0",
        "quay.io/me/demo:1.1.0",
    ]


def test_directories_images_and_lists(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    listed = tmp_path / "list"
    listed.write_text("# all of them\nquay.io/me/b:1   # and this\n\noci:layout:1\n")
    named = [str(tmp_path / "demo"), "quay.io/me/a@sha256:" + "0" * 64, f"@{listed}"]
    assert [source.target for source in expand_targets(named, no_tags)] == [
        *named[:2],
        "quay.io/me/b:1",
        "oci:layout:1",
    ]


@pytest.mark.parametrize(
    ("target", "error"), [("./nowhere", NotABundle), ("Quay.io/Up:1", InvalidReference), ("@gone", ImageToolsError)]
)
def test_what_names_nothing(target: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        list(expand_targets([target], no_tags))


def test_lists_do_not_nest(tmp_path: Path) -> None:
    (tmp_path / "list").write_text(f"@{tmp_path}/list\n")
    with pytest.raises(NotABundle, match="nested list"):
        list(expand_targets([f"@{tmp_path}/list"], no_tags))


def test_a_directory_is_read_whole_but_for_links_out_of_it(tmp_path: Path) -> None:
    root = bundle_at(tmp_path / "demo", {"manifests/a.yaml": b"a", "metadata/deep/b.yaml": b"b"})
    (tmp_path / "secret").write_text("secret")
    (root / "manifests" / "out.yaml").symlink_to(tmp_path / "secret")
    (root / "manifests" / "in.yaml").symlink_to("a.yaml")
    (root / "manifests" / "loop").symlink_to(root)
    os.mkfifo(root / "manifests" / "pipe")
    bundle = read_files(NO_TOOL, Source("demo", root))
    assert bundle.files == {"manifests/a.yaml": b"a", "manifests/in.yaml": b"a", "metadata/deep/b.yaml": b"b"}
    assert {"manifests", "metadata", "metadata/deep"} <= bundle.directories
    assert not bundle.bare


def test_a_directory_of_manifests_is_bare(tmp_path: Path) -> None:
    assert read_files(NO_TOOL, Source("demo", bundle_at(tmp_path, {"csv.yaml": b"a"}))).bare


def test_a_file_is_no_bundle(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    with pytest.raises(NotABundle, match="is a file") as raised:
        list(expand_targets([str(tmp_path / "README.md")], no_tags))
    assert f"@{tmp_path}" in str(raised.value.hint)


def test_what_is_no_bundle_or_too_large(tmp_path: Path) -> None:
    with pytest.raises(NotABundle):
        read_files(NO_TOOL, Source("demo", bundle_at(tmp_path / "none", {"src/main.go": b"package main"})))
    large = bundle_at(tmp_path / "large", {"manifests/a.yaml": b""})
    with (large / "manifests/a.yaml").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(LimitExceeded):
        read_files(NO_TOOL, Source("demo", large))
    with pytest.raises(NotABundle, match="no labels"):
        read_labels(NO_TOOL, Source("demo", large))


def judged(views: list[str]) -> BundleValidator:
    def judge(view: BundleView) -> list[Finding]:
        views.append(view.name)
        return [Finding(f"{len(view.files)} files", rule="DEMO", validator="demo")]

    return BundleValidator(NO_TOOL, ValidatorConfig(judge, Compat.OPMKIT, Options()), processes=0)


def test_what_cannot_be_read_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    good = bundle_at(tmp_path / "good", {"manifests/a.yaml": b"a"})
    sources = [Source("bad", tmp_path / "gone"), *(Source(f"good{number}", good) for number in range(100))]
    views: list[str] = []
    verdicts = list(judged(views).run(sources))
    assert [verdict.target for verdict in verdicts] == [source.target for source in sources]
    assert verdicts[0].error
    assert all(verdict.findings[0].message == "1 files" for verdict in verdicts[1:])


def test_verdicts_are_kept_by_content_and_choices(tmp_path: Path) -> None:
    root = bundle_at(tmp_path / "demo", {"manifests/a.yaml": b"a"})
    views: list[str] = []

    def run(name: str, *choices: str) -> ValidationResult:
        validation = judged(views)
        cached = replace(validation, cache=ValidationCache.open(tmp_path / "verdicts", choices))
        return next(iter(cached.run([Source(name, root)])))

    first = run("one", "all")
    again = run("two", "all")
    assert (again.target, again.findings) == ("two", first.findings)
    assert views == ["one"]
    run("three", "opm")
    bundle_at(root, {"manifests/a.yaml": b"b"})
    run("four", "all")
    assert views == ["one", "three", "four"]
    for file in (tmp_path / "verdicts").rglob("*.json"):
        file.write_bytes(b"{")
    run("five", "all")
    assert views[-1] == "five"


def test_digests_of_files_tell_names_from_contents() -> None:
    digests = {files_digest(files) for files in ({"a": b"bc"}, {"ab": b"c"}, {"a": b"b", "c": b""}, {})}
    assert len(digests) == 4
