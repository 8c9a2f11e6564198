"""Validation of many bundles, and its cache."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from opmkit.bundle.finding import Finding
from opmkit.bundle.validation.bundle_view import Options
from opmkit.bundle.validation.cache import ValidationCache
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.parallel_validator import ValidatorConfig
from opmkit.bundle.validation.sources import Source
from opmkit.bundle.validation.validator import BundleValidator

if TYPE_CHECKING:
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
