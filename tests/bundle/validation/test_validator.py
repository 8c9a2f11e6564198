"""Validation of many bundles, and its cache."""

from __future__ import annotations

import os
from mmap import mmap
from typing import TYPE_CHECKING, cast

import pytest
from msgspec.structs import replace

from opmkit.bundle.finding import Finding
from opmkit.bundle.validation.cache import ValidationCache
from opmkit.bundle.validation.compat import Compat, Options
from opmkit.bundle.validation.parallel_validator import ParallelValidator, ValidatorConfig
from opmkit.bundle.validation.sources import BundleFiles, Source
from opmkit.bundle.validation.validator import BundleValidator
from opmkit.imagetools.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.result import ValidationResult
    from opmkit.bundle.validation.sources import GetTool


def write_manifest(root: Path, content: bytes) -> Path:
    (root / "manifests").mkdir(parents=True, exist_ok=True)
    (root / "manifests" / "a.yaml").write_bytes(content)
    return root


def recording_validator(names: list[str]) -> BundleValidator:
    """Return a validator that appends the name of each bundle it validates to ``names``."""

    def run(view: BundleView) -> list[Finding]:
        names.append(view.name)
        return [Finding(f"{len(view.files)} files", rule="DEMO", validator="demo")]

    return BundleValidator(cast("GetTool", None), ValidatorConfig(run, Compat.OPMKIT, Options()), processes=0)


def test_unreadable_bundles_are_results(tmp_path: Path) -> None:
    good = write_manifest(tmp_path / "good", b"a")
    sources = [Source("bad", tmp_path / "gone"), *(Source(f"good{number}", good) for number in range(100))]
    results = list(recording_validator([]).run(sources))
    assert [result.target for result in results] == [source.target for source in sources]
    assert results[0].error
    assert all(result.findings[0].message == "1 files" for result in results[1:])


def test_results_are_cached_by_content_and_options(tmp_path: Path) -> None:
    root = write_manifest(tmp_path / "demo", b"a")
    names: list[str] = []

    def validate(name: str, *options: str) -> ValidationResult:
        cache = ValidationCache.open(tmp_path / "results", options)
        return next(iter(replace(recording_validator(names), cache=cache).run([Source(name, root)])))

    first = validate("one", "all")
    again = validate("two", "all")
    assert (again.target, again.findings) == ("two", first.findings)
    assert names == ["one"]
    validate("three", "opm")
    write_manifest(root, b"b")
    validate("four", "all")
    assert names == ["one", "three", "four"]
    for file in (tmp_path / "results").rglob("*.json"):
        file.write_bytes(b"{")
    validate("five", "all")
    assert names[-1] == "five"


def test_results_depend_on_empty_directories(tmp_path: Path) -> None:
    root = write_manifest(tmp_path / "demo", b"a")
    names: list[str] = []
    cache = ValidationCache.open(tmp_path / "results", [])
    validator = replace(recording_validator(names), cache=cache)
    list(validator.run([Source("one", root)]))
    (root / "manifests" / "sub").mkdir()
    list(validator.run([Source("two", root)]))
    assert names == ["one", "two"]


def _write_mapped(root: Path) -> None:
    """Write through a mapping and restore the times: file systems such as sshfs and squashfs would not change them."""
    path = root / "manifests" / "a.yaml"
    before = path.stat()
    with path.open("r+b") as file, mmap(file.fileno(), 0) as mapped:
        mapped[0:1] = b"b"
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _link(root: Path) -> None:
    path = root / "manifests" / "a.yaml"
    path.rename(root / "a")
    path.symlink_to("../a")


def _copy(root: Path) -> None:
    root.rename(root.with_name("moved"))
    write_manifest(root, b"a")


CHANGES: dict[str, Callable[[Path], object]] = {
    "content of the same size and time": _write_mapped,
    "name": lambda root: (root / "manifests" / "a.yaml").rename(root / "manifests" / "b.yaml"),
    "new file": lambda root: (root / "manifests" / "b.yaml").write_bytes(b"b"),
    "new directory": lambda root: (root / "manifests" / "sub").mkdir(),
    "file that becomes a link": _link,  # the file that it leads to is a new one
    "configuration of the operator": lambda root: (root.parent / "ci.yaml").write_bytes(b"a: 1"),
}
NO_CHANGES: dict[str, Callable[[Path], object]] = {
    "equal copy in the same place": _copy,
    "mode": lambda root: (root / "manifests" / "a.yaml").chmod(0o600),
    "time": lambda root: os.utime(root / "manifests" / "a.yaml", (0, 0)),
}


@pytest.mark.parametrize(
    ("change", "names_after"),
    [*((change, ["a", "c"]) for change in CHANGES.values()), *((change, ["a"]) for change in NO_CHANGES.values())],
    ids=[*CHANGES, *NO_CHANGES],
)
def test_results_depend_on_content_alone(
    change: Callable[[Path], object], names_after: list[str], tmp_path: Path
) -> None:
    root = write_manifest(tmp_path / "operators" / "demo" / "0.1.0", b"a")
    names: list[str] = []
    validator = replace(recording_validator(names), cache=ValidationCache.open(tmp_path / "store", []))
    for name in "ab":
        list(validator.run([Source(name, root)]))
    assert names == ["a"]
    change(root)
    list(validator.run([Source("c", root)]))
    assert names == names_after


def test_the_result_of_an_operator_depends_on_its_repository(tmp_path: Path) -> None:
    root = tmp_path / "operators" / "demo"
    write_manifest(root / "0.1.0", b"kind: ClusterServiceVersion")
    (root / "0.1.0" / "metadata").mkdir()
    names: list[str] = []
    validator = replace(recording_validator(names), cache=ValidationCache.open(tmp_path / "store", []))
    for name in "ab":
        list(validator.run([Source(name, root, operator=True)]))
    (tmp_path / "config.yaml").write_bytes(b"a: 1")
    list(validator.run([Source("c", root, operator=True)]))
    write_manifest(root / "0.1.0", b"kind: clusterserviceversion")
    list(validator.run([Source("d", root, operator=True)]))
    assert names == ["a", "c", "d"]


def test_rules_are_imported_while_an_image_is_pulled(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(ParallelValidator, "prepare", lambda _: steps.append("import"))

    def read(_get_tool: GetTool, source: Source) -> BundleFiles:
        steps.append(source.target)
        return BundleFiles({"manifests/a.yaml": b"a"}, frozenset({"manifests"}), {})

    image = Source("image", Reference("registry.example.com", "demo", "1"))
    list(replace(recording_validator([]), read=read).run([image]))
    assert steps == ["import", "image"]
