"""Bundles, catalogs and templates on disk: which files are read, and how they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.pinning import fake_digest, pinned_name

from opmkit.author.pin.pin import pin_files
from opmkit.author.pin.resolve import PinOptions, resolve_images
from opmkit.author.pin.sources import PinSource, replace_files
from opmkit.core.errors import DiskError
from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from pathlib import Path

IMAGE, PINNED = "quay.io/a/b:1", pinned_name("quay.io/a/b:1")
POD = f"kind: Pod\nspec:\n  containers:\n  - image: {IMAGE} # comment\n"
CSV = f"kind: ClusterServiceVersion\nmetadata:\n  annotations:\n    containerImage: {IMAGE}\n"
BLOB = f"schema: olm.bundle\nimage: {IMAGE}\n"


def write(root: Path, **files: str) -> Path:
    """Write files; ``__`` in a name stands for a slash, ``_`` for a dot."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def pin(path: Path, name: str = "x", output: Path | None = None) -> list[str]:
    """Pin a directory or file; return the names of the changed files."""
    source = PinSource.read(path, name)
    images = resolve_images((use for file in source.files for use in file.uses()), PinOptions(), fake_digest)
    result = pin_files(source.files, images)
    if output:
        source.write_copy(result.files, output)
    else:
        assert replace_files([(source, result.files)])
    return list(result.files)


def test_a_bundle_directory(tmp_path: Path) -> None:
    write(tmp_path, manifests__csv_yaml=CSV, manifests__pod_json="", manifests__readme_md=POD, metadata__a_yaml=POD)
    (tmp_path / "manifests" / "csv.yaml").chmod(0o600)
    assert pin(tmp_path, "bundle/") == ["bundle/manifests/csv.yaml"]
    assert (tmp_path / "manifests" / "csv.yaml").read_text() == CSV.replace(IMAGE, PINNED)
    assert (tmp_path / "manifests" / "csv.yaml").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "manifests" / "readme.md").read_text() == POD
    assert (tmp_path / "metadata" / "a.yaml").read_text() == POD
    assert not list(tmp_path.glob(".opm*"))


def test_a_manifests_directory(tmp_path: Path) -> None:
    write(tmp_path, csv_yaml=CSV, pod_yml=POD, broken_txt="[")
    assert sorted(pin(tmp_path)) == ["x/csv.yaml", "x/pod.yml"]


def test_a_catalog_directory_with_ignored_files(tmp_path: Path) -> None:
    write(tmp_path, a__catalog_yaml=BLOB, a__deep__b_json=f'{{"schema":"olm.bundle","image":"{IMAGE}"}}', c__d=POD)
    write(tmp_path, skipped_yaml="[")
    (tmp_path / ".indexignore").write_text("skipped.yaml\n")
    assert pin(tmp_path) == ["x/a/catalog.yaml", "x/a/deep/b.json", "x/c/d"]
    assert (tmp_path / "a/deep/b.json").read_text() == f'{{"schema":"olm.bundle","image":"{PINNED}"}}'
    assert pin(tmp_path) == []


@pytest.mark.parametrize("text", [POD, BLOB, f"schema: olm.semver\nStable:\n  Bundles:\n  - Image: {IMAGE}\n"])
def test_a_single_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "template.yaml"
    file.write_text(text)
    assert pin(file, "template.yaml") == ["template.yaml"]
    assert file.read_text() == text.replace(IMAGE, PINNED)


def test_a_copy_contains_all_files(tmp_path: Path) -> None:
    bundle = write(tmp_path / "bundle", manifests__csv_yaml=CSV, metadata__a_yaml="a: 1", tests__config_yaml=POD)
    (bundle / "link").symlink_to("metadata")
    pin(bundle, output=tmp_path / "new" / "copy")
    copy = tmp_path / "new" / "copy"
    assert (bundle / "manifests/csv.yaml").read_text() == CSV
    assert (copy / "manifests/csv.yaml").read_text() == CSV.replace(IMAGE, PINNED)
    assert (copy / "tests/config.yaml").read_text() == POD
    assert (copy / "link").readlink().name == "metadata"
    with pytest.raises(CatalogError, match="already exists and is not empty"):
        pin(bundle, output=copy)
    with pytest.raises(CatalogError, match="into itself"):
        pin(bundle, output=bundle / "copy")
    with pytest.raises(CatalogError, match="into itself"):
        pin(bundle, output=bundle)
    (tmp_path / "empty").mkdir()
    pin(bundle, output=tmp_path / "empty")
    assert (tmp_path / "empty/manifests/csv.yaml").is_file()


def test_a_linked_file_becomes_a_file(tmp_path: Path) -> None:
    bundle = write(tmp_path / "bundle", manifests__other_yaml="kind: Pod\n")
    target = write(bundle, csv_yaml=CSV) / "csv.yaml"
    (bundle / "manifests" / "csv.yaml").symlink_to(target)
    pin(bundle)
    assert target.read_text() == CSV
    assert (bundle / "manifests" / "csv.yaml").read_text() == CSV.replace(IMAGE, PINNED)


def test_databases_are_rejected(tmp_path: Path) -> None:
    file = tmp_path / "index.db"
    file.write_bytes(b"SQLite format 3\0" + b"\0" * 100)
    with pytest.raises(CatalogError, match="it is an index database") as raised:
        PinSource.read(file, "index.db")
    assert "migrate_index" in str(raised.value.hint)


def test_missing_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="No such file"):
        PinSource.read(tmp_path / "missing", "missing")
