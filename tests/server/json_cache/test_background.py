"""Build of a private cache in another process: its index first, the files of bundles later."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, NoReturn

import pytest

from opmkit.index.errors import InvalidCatalog
from opmkit.server.json_cache.background import BackgroundBuild
from opmkit.server.json_cache.cache import build_private_cache, finish_private_cache
from opmkit.server.settings import ServerError
from tests.kit.cachedcatalog import write_catalog, write_file

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.server.json_cache.build import LoadedCatalog

FINISH = "opmkit.server.json_cache.background.finish_private_cache"
BUNDLE = ("lagoon", "stable", "lagoon.v1")


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    return write_catalog(tmp_path / "catalog")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def test_bundles_are_read_when_they_are_written(
    catalog: Path, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked, release = os.pipe()

    def finish_later(loaded: LoadedCatalog, directory: Path) -> None:
        os.read(blocked, 1)
        finish_private_cache(loaded, directory)

    monkeypatch.setattr(FINISH, finish_later)
    expected = build_private_cache(catalog, tmp_path / "expected")
    found: list[bytes] = []
    with BackgroundBuild(catalog, scratch) as build:
        cache = build.open()
        assert cache.packages == expected.packages
        reading = threading.Thread(target=lambda: found.append(cache.read_bundle(*BUNDLE)))
        reading.start()
        reading.join(0.1)
        assert reading.is_alive()
        os.write(release, b"\n")
        reading.join()
    assert found == [expected.read_bundle(*BUNDLE)]


def test_invalid_catalog_has_the_same_error(catalog: Path, scratch: Path, tmp_path: Path) -> None:
    write_file(catalog / "more.json", b'{"schema": "olm.channel", "package": "lagoon", "name": "empty"}')
    with pytest.raises(InvalidCatalog) as expected:
        build_private_cache(catalog, tmp_path / "expected")
    with BackgroundBuild(catalog, scratch) as build:
        with pytest.raises(InvalidCatalog) as raised:
            build.open()
        build.check()
    assert raised.value.message == expected.value.message


def check_forever(build: BackgroundBuild) -> NoReturn:
    while True:
        build.check()
        time.sleep(0.01)


def test_failure_after_the_index_is_reported(catalog: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(loaded: LoadedCatalog, directory: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FINISH, fail)
    with BackgroundBuild(catalog, scratch) as build:
        build.open()
        with pytest.raises(ServerError, match=r"ended by itself \(exit status 1\)"):
            check_forever(build)


def test_process_ends_with_the_server(catalog: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()

    def never_finish(*_: object) -> None:
        os.write(writer, str(os.getpid()).encode())
        time.sleep(60)

    monkeypatch.setattr(FINISH, never_finish)
    with BackgroundBuild(catalog, scratch) as build:
        build.open()
        process = int(os.read(reader, 16))
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
