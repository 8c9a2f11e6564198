"""Lock files of image digests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.index.errors import InvalidCatalog
from opmkit.index.templates.repository import images as lock_module
from opmkit.index.templates.repository.images import ImageLock, LockedImage, update_lock

MEDIA_TYPE = "application/vnd.oci.image.manifest.v1+json"
NAMES = ("quay.io/b/x:1", "quay.io/a/x:2", "quay.io/a/x:10", "docker.io/library/x", "localhost:5000/x:1_0")


def locked(digit: int) -> LockedImage:
    return LockedImage(f"sha256:{digit:064x}", MEDIA_TYPE)


def test_lock_is_read_as_it_was_written_with_one_sorted_line_per_image(tmp_path: Path) -> None:
    path = tmp_path / "new" / "catalog.lock"
    images = {name: locked(number) for number, name in enumerate(NAMES)}
    assert update_lock(path, images)
    assert ImageLock.read(path).images == images
    lines = path.read_text().splitlines()
    assert lines[1:3] == ["version: 1", "images:"]
    assert [line.split('"')[1] for line in lines[3:]] == sorted(NAMES)
    assert not update_lock(path, images)
    assert update_lock(path, {NAMES[0]: locked(9)})
    assert [line for line in path.read_text().splitlines() if line not in lines] == [
        f'  "{NAMES[0]}": {{"digest": "{locked(9).digest}", "mediaType": "{MEDIA_TYPE}"}}'
    ]


def test_link_to_a_lock_file_remains(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    link = tmp_path / "catalog.lock"
    link.symlink_to("shared/catalog.lock")
    assert update_lock(link, {NAMES[0]: locked(1)})
    assert link.is_symlink()
    assert ImageLock.read(tmp_path / "shared" / "catalog.lock").images == {NAMES[0]: locked(1)}


def test_link_out_of_the_working_directory_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "catalog.lock").symlink_to(tmp_path / "outside.lock")
    monkeypatch.chdir(tmp_path / "checkout")
    with pytest.raises(DiskError, match="refusing to follow a symbolic link that leads out of"):
        update_lock(Path("catalog.lock"), {NAMES[0]: locked(1)})
    assert not (tmp_path / "outside.lock").exists()


def test_missing_and_empty_files_have_no_images(tmp_path: Path) -> None:
    assert ImageLock.read(tmp_path / "missing").images == {}
    (tmp_path / "empty").write_text("# nothing\n")
    assert ImageLock.read(tmp_path / "empty").images == {}
    assert not update_lock(tmp_path / "none", {})
    assert not (tmp_path / "none").exists()


def test_concurrent_writers_retain_the_images_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "catalog.lock"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: update_lock(path, {f"quay.io/a/x:{number}": locked(number)}), range(24)))
    assert len(ImageLock.read(path).images) == 24


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "1: the document is a list, not a mapping"),
        ("version: 2", "1: unsupported version 2"),
        ("images: {}", "1: unsupported version None"),
        ("version: 1\nimages: 3", "2: images is a number, not a mapping"),
        ("version: 1\nimages:\n  quay.io/a:1: x", "3: images.*is a string, not a mapping"),
        ("version: 1\nimages:\n  quay.io/a:1:", "3: image 'quay.io/a:1' has no digest"),
        ("version: 1\nimages:\n  quay.io/a:1: {digest: sha256:12}", "3: image 'quay.io/a:1' has the invalid digest"),
        ("version: 1\nimages:\n  quay.io/a:1: {digest: [1]}", "3: .*digest is a list, not a string"),
        ("version: 1\nimages:\n  quay.io/A^: {}", "3: invalid image"),
        ("version: 1\nimagse: {}", "2: unknown field imagse"),
        ("version: 1\nimages:\n  a: {}\n  a: {}", "4: duplicate key 'a'"),
        ("version: 1\nimages:\n<<<<<<< ours\n  a: {}\n=======\n", "3: unresolved merge conflict"),
        ("version: 1\n\x1b[31m: [", "invalid YAML"),
        ("a: &a [*a]", "invalid YAML|unknown field|unsupported"),
    ],
)
def test_invalid_files_are_reported_with_lines(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "catalog.lock"
    path.write_text(text)
    with pytest.raises(InvalidCatalog, match=f"catalog.lock:?{problem}|catalog.lock:[0-9]+: (?:{problem})"):
        ImageLock.read(path)
    with pytest.raises(InvalidCatalog):
        update_lock(path, {NAMES[0]: locked(1)})
    assert path.read_text() == text


def test_too_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "MAX_LOCK", 10)
    (tmp_path / "catalog.lock").write_text("version: 1\nimages: {}\n")
    with pytest.raises(LimitExceeded, match="larger than 10 bytes"):
        ImageLock.read(tmp_path / "catalog.lock")
