"""Pulling of many bundles."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

import pytest

from opmkit.bundle import InvalidBundle, pull
from opmkit.bundle.load import load_bundle_directory
from opmkit.bundle.pull import BundleFetcher, pull_bundles
from opmkit.bundle.source import BundleSource
from opmkit.core.workers import WorkerProcess
from opmkit.imagetools.errors import InvalidReference, NotFound
from opmkit.imagetools.reference import parse_image_reference
from tests.bundle.samples import CRD, CSV, crd, csv, files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.tools.tool import ContainerTool

NO_TOOL = cast("ContainerTool", None)
COUNT = 40


class SlowTool:
    """A tool that records the images that are read, and can make their readers wait."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.first = threading.Event()
        self.open = threading.Event()

    def require_equal_platforms(self, image: object, _: object) -> object:
        return image

    def read_tree(self, image: object, *_: object) -> dict[str, bytes]:
        self.read.append(str(image))
        self.first.set()
        self.open.wait(30)
        if "missing" in str(image):
            raise NotFound(f"{image}: not found")
        return {"manifests/a.yaml": str(image).encode()}


def test_first_bundles_are_fetched_before_they_are_asked_for() -> None:
    tool = SlowTool()
    references = ["quay.io/me/a:1", "quay.io/me/missing:1", "Invalid:", "quay.io/me/a:1"]
    with BundleFetcher(tool, references) as fetcher:  # type: ignore[arg-type]
        assert tool.first.wait(30)
        tool.open.set()
        for _ in range(2):
            assert fetcher.fetch(BundleSource.parse(references[0])) == {"manifests/a.yaml": b"quay.io/me/a:1"}
        with pytest.raises(NotFound, match="missing:1: not found"):
            fetcher.fetch(BundleSource.parse(references[1]))
        with pytest.raises(InvalidReference):
            fetcher.fetch(BundleSource(references[2], parse_image_reference("quay.io/me/a:1"), ""))
    assert sorted(tool.read) == ["quay.io/me/a:1", "quay.io/me/a:1", "quay.io/me/missing:1"]


def test_fetching_stops_with_the_caller() -> None:
    tool = SlowTool()
    with BundleFetcher(tool, [f"quay.io/me/a:{number}" for number in range(16)]):  # type: ignore[arg-type]
        assert tool.first.wait(30)
        threading.Timer(0.1, tool.open.set).start()
    assert len(tool.read) < 16


@pytest.fixture
def directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Write bundles with a common CRD and a file that is ignored, and provide two processors."""
    monkeypatch.setattr(pull, "spare_cpu_count", lambda _: 1)
    for number in range(COUNT):
        name, version = f"op.v1.{number}.0", f"1.{number}.0"
        content = files(name=name, spec={"version": version}) | {CRD: crd("v1"), "manifests/x.yaml": b"a: ["}
        for path, data in content.items():
            file = tmp_path / version / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    return [f"{tmp_path}/1.{number}.0" for number in range(COUNT)]


def pull_directories(directories: list[str], warnings: list[str]) -> Iterator[Bundle]:
    with BundleFetcher(NO_TOOL) as fetcher:
        yield from pull_bundles(fetcher, directories, warn=warnings.append)


def test_worker_processes_load_directories(
    directories: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [load_bundle_directory(tmp_path / f"1.{number}.0") for number in range(COUNT)]
    monkeypatch.setattr(pull, "load_directories", None)  # none is loaded in this process
    warnings: list[str] = []
    assert list(pull_directories([*directories, directories[0]], warnings)) == expected
    assert warnings == [f"{path}: {bundle.warnings[0]}" for path, bundle in zip(directories, expected, strict=True)]
    assert warnings[0].startswith(f"{directories[0]}: ignored manifests/x.yaml:2:1: ")


def test_first_error_ends_the_iteration(directories: list[str], tmp_path: Path) -> None:
    (tmp_path / "1.3.0" / CSV).write_bytes(csv(name=""))
    (tmp_path / "1.5.0" / CSV).unlink()
    bundles = pull_directories(directories, [])
    assert [next(bundles).version for _ in range(3)] == ["1.0.0", "1.1.0", "1.2.0"]
    with pytest.raises(InvalidBundle, match=rf"^{directories[3]}: {CSV}: the ClusterServiceVersion has no") as error:
        next(bundles)
    assert str(error.value.hint) == "set a name such as op.v1.0.0"


def test_directories_are_loaded_here_if_processes_fail(
    directories: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkerProcess, "request", lambda *_: None)
    expected = [load_bundle_directory(tmp_path / f"1.{number}.0") for number in range(COUNT)]
    assert list(pull_directories(directories, [])) == expected
