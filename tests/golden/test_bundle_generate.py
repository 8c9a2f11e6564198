"""Results of ``opm alpha bundle generate`` equal the recorded ones of Go opm."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kit.opm import run
from tests.kit.shared import SHARED, Case, cases, needs_shared

pytestmark = needs_shared


@pytest.fixture(params=cases("bundle-generate"), ids=str)
def replay(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Write the files of a case to an empty directory and return its record."""
    case: Case = request.param
    record = case.record
    shutil.copytree(SHARED / record["source"], tmp_path / record["copied_to"])
    for path in [tmp_path, *tmp_path.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    for name, content in record.get("files_before", {}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return record


def test_exit_status_and_files_equal_the_record(replay: dict[str, Any]) -> None:
    before = _files()

    assert run(replay["argv"]) == replay["exit"]

    assert sorted(_files() - before) == replay["new_files"]
    if replay["exit"] == 0:
        assert _instructions(Path("bundle.Dockerfile")) == replay["dockerfile"]
        annotations = replay["annotations"]
        assert yaml.safe_load(Path(annotations["path"]).read_text()) == annotations["content"]


def test_repeated_runs_write_the_same_bytes(replay: dict[str, Any]) -> None:
    if replay["exit"] != 0:
        return
    paths = [Path("bundle.Dockerfile"), Path(replay["annotations"]["path"])]
    run(replay["argv"])
    first = [path.read_bytes() for path in paths]

    assert run(replay["argv"]) == 0

    assert [path.read_bytes() for path in paths] == first


def _files() -> set[str]:
    return {path.as_posix() for path in Path().rglob("*") if path.is_file()}


def _instructions(path: Path) -> list[list[str]]:
    return [line.split(" ", 1) for line in path.read_text().splitlines() if line]
