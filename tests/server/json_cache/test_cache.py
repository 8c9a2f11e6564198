"""The cache of a catalog: an incomplete one is never used, even if the build is interrupted."""

from __future__ import annotations

import json
import os
import stat
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.server.json_cache.cache import InvalidCache, build_private_cache, load_cache, unreadable_format
from opmkit.server.json_cache.digest import bundle_file
from tests.kit.cachedcatalog import BLOBS, DIGEST, FILES, write_catalog, write_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    return write_catalog(tmp_path / "catalog")


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def is_valid(catalog: Path, cache: Path) -> bool:
    try:
        load_cache(catalog, cache, enforce=True)
    except InvalidCache:
        return False
    return True


def test_private_cache_has_the_same_files_without_a_digest(catalog: Path, tmp_path: Path) -> None:
    shared = load_cache(catalog, tmp_path / "shared", enforce=False)
    private = build_private_cache(catalog, tmp_path / "private")
    assert private.packages == shared.packages
    names = files(shared.directory)
    assert files(private.directory) == names != []
    assert all((private.directory / name).read_bytes() == (shared.directory / name).read_bytes() for name in names)


def test_unsupported_files_are_rejected_without_a_digest(catalog: Path, tmp_path: Path) -> None:
    os.mkfifo(catalog / "pipe")
    with pytest.raises(InvalidCatalog, match="pipe: unsupported file type"):
        build_private_cache(catalog, tmp_path / "private")


def start_child(function: Callable[[], object]) -> int:
    """Call a function in a new process, and return its id."""
    child = os.fork()
    if not child:
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    return child


def exit_status(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("umask", [0o022, 0o077, 0])
def test_cache_equals_that_of_operator_registry(umask: int, catalog: Path, tmp_path: Path) -> None:
    cache = tmp_path / "new" / "cache"
    previous = os.umask(umask)
    try:
        load_cache(catalog, cache, enforce=False)
        assert os.umask(umask) == umask
    finally:
        os.umask(previous)
    assert (cache / "digest").read_text() == DIGEST
    assert files(cache) == FILES
    assert stat.S_IMODE(cache.stat().st_mode) == 0o750
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in cache.rglob("*") if path.is_dir()} == {"0o750"}
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in cache.rglob("*") if path.is_file()} == {"0o640"}


def test_schema_that_clients_cannot_request_is_omitted(tmp_path: Path) -> None:
    catalog = tmp_path / "catalog"
    catalog.mkdir()
    write_file(catalog / "all.json", "\n".join(map(json.dumps, BLOBS)).encode())
    load_cache(catalog, tmp_path / "cache", enforce=False)
    assert files(tmp_path / "cache") == FILES


def test_invalid_catalog_does_not_change_the_cache(catalog: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    load_cache(catalog, cache, enforce=False)
    write_file(catalog / "more.json", b'{"schema": "olm.channel", "package": "lagoon", "name": "empty"}')
    with pytest.raises(InvalidCatalog):
        load_cache(catalog, cache, enforce=False)
    (catalog / "more.json").unlink()
    assert is_valid(catalog, cache)


def test_change_of_the_catalog_during_the_build_invalidates_the_cache(
    catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opmkit.server.json_cache import build

    load_catalog = build.load_catalog

    def load_and_change(root: Path) -> build.LoadedCatalog:
        loaded = load_catalog(root)
        write_file(root / "more.json", b'{"schema": "note"}')
        return loaded

    monkeypatch.setattr(build, "load_catalog", load_and_change)
    load_cache(catalog, tmp_path / "cache", enforce=False)
    assert not is_valid(catalog, tmp_path / "cache")


@pytest.mark.slow
@pytest.mark.parametrize("old", ["none", "other catalog"])
def test_interrupted_build_leaves_no_valid_cache(old: str, catalog: Path, tmp_path: Path) -> None:
    """Kill builds before each change in the cache directory."""
    step, survived = 0, False
    while not survived:
        cache = tmp_path / f"cache-{step}"
        if old != "none":
            load_cache(write_catalog(tmp_path / f"old-{step}"), cache, enforce=False)
            (cache / "cache" / "stale").touch()
        survived = exit_status(start_child(lambda: _build_until(step, catalog, cache))) == 0  # noqa: B023
        assert is_valid(catalog, cache) or not survived
        assert [f"cache/{name}" for name in files(cache / "cache")] == FILES[:-1] or not is_valid(catalog, cache)
        load_cache(catalog, cache, enforce=False)
        assert files(cache) == FILES
        step += 1
    assert step > 10


def _build_until(step: int, catalog: Path, cache: Path) -> None:
    remaining = step

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal remaining
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_CREAT)
        changes = event in {"os.mkdir", "os.rename", "os.remove", "os.rmdir"}
        if (writes or changes) and str(cache) in str(arguments[0]):
            if not remaining:
                os._exit(9)
            remaining -= 1

    sys.addaudithook(watch)
    load_cache(catalog, cache, enforce=False)


def test_processes_build_the_same_cache_in_turn(catalog: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    children = [start_child(lambda: load_cache(catalog, cache, enforce=False)) for _ in range(6)]
    assert [exit_status(child) for child in children] == [0] * 6
    assert files(cache) == FILES
    assert is_valid(catalog, cache)


def test_builds_of_different_catalogs_do_not_mix(catalog: Path, tmp_path: Path) -> None:
    cache, other = tmp_path / "cache", write_catalog(tmp_path / "other")
    path = other / "lagoon" / "catalog.json"
    write_file(path, path.read_bytes().replace(b"use v2", b"use v9"))

    def build_cache(root: Path) -> None:
        for _ in range(5):
            load_cache(root, cache, enforce=False)

    children = [start_child(lambda root=root: build_cache(root)) for root in (catalog, other) * 2]  # type: ignore[misc]
    assert [exit_status(child) for child in children] == [0] * 4
    assert is_valid(catalog, cache) != is_valid(other, cache)


def test_full_disk_leaves_an_invalid_cache(catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from opmkit.server.json_cache import build

    def full(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(build, "create_file", full)
        with pytest.raises(Exception, match="No space left"):
            load_cache(catalog, tmp_path / "cache", enforce=False)
    assert files(tmp_path / "cache") == ["digest"]
    assert not is_valid(catalog, tmp_path / "cache")
    load_cache(catalog, tmp_path / "cache", enforce=False)
    assert is_valid(catalog, tmp_path / "cache")


@pytest.mark.parametrize("names", [["precious"], ["cache/precious"], ["digest", "precious"]])
def test_directory_with_other_files_is_refused(names: list[str], catalog: Path, tmp_path: Path) -> None:
    for name in names:
        path = tmp_path / "other" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with pytest.raises(InvalidCache, match="unexpected contents"):
        load_cache(catalog, tmp_path / "other", enforce=False)
    assert files(tmp_path / "other") == sorted(names)


def test_other_files_next_to_a_cache_are_ignored(catalog: Path, tmp_path: Path) -> None:
    load_cache(catalog, tmp_path / "cache", enforce=False)
    (tmp_path / "cache" / "more").touch()
    assert is_valid(catalog, tmp_path / "cache")


def test_unreadable_format_is_recognized(tmp_path: Path) -> None:
    assert unreadable_format(tmp_path / "none") == ""
    (tmp_path / "pogreb.v1").mkdir()
    assert unreadable_format(tmp_path) == "pogreb.v1"
    (tmp_path / "cache").mkdir()
    (tmp_path / "digest").touch()
    assert unreadable_format(tmp_path) == ""


def test_bundle_file() -> None:
    assert bundle_file("lagoon", "stable", "lagoon.v1") == "lagoon_stable_lagoon.v1.json"
    assert bundle_file("lagoon", "4.1/stable", "lagoon.v1") == "lagoon_4.1/stable_lagoon.v1.json"
    for channel, bundle in (("/../../..", "x"), ("a", "/../../x"), ("a\0", "x")):
        with pytest.raises(CatalogError, match="invalid as a file name"):
            bundle_file("lagoon", channel, bundle)
