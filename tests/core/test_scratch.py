"""Scratch directories, in particular those of killed processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from opmkit.core import scratch
from opmkit.core.scratch import ScratchDirectory, remove_stale_directories
from tests.kit.unprivileged import UID

PROGRAM = """
import sys
from pathlib import Path
from opmkit.core.scratch import ScratchDirectory
with ScratchDirectory(sys.argv[1], Path(sys.argv[2])) as path:
    Path(path, "directory").mkdir()
    Path(path, "directory", "file").write_text("content")
    print(path, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a process that has not created a scratch directory yet."""
    monkeypatch.setattr(scratch, "_cleaned_parents", set())


def start(directory: Path, prefix: str = "opm-index-") -> tuple[subprocess.Popen[str], Path]:
    """Start a process with a scratch directory in ``directory``; return the process and the path."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, prefix, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def create_stale(directory: Path, prefix: str = "opm-index-") -> Path:
    """Create the scratch directory of a killed process."""
    process, path = start(directory, prefix)
    kill(process)
    assert (path / "directory" / "file").exists()
    return path


@pytest.mark.parametrize("prefix", ["opm-index-", "opm-serve-cache-", ".opm-", ".opm-unpack-"])
def test_directory_of_a_killed_process_is_removed(tmp_path: Path, prefix: str) -> None:
    path = create_stale(tmp_path, prefix)
    with ScratchDirectory("opm-other-", tmp_path) as other:
        assert list(tmp_path.iterdir()) == [Path(other)]
    assert not path.exists()


def test_directory_of_a_running_process_stays(tmp_path: Path) -> None:
    process, path = start(tmp_path)
    assert remove_stale_directories(tmp_path) == 0
    assert (path / "directory" / "file").exists()
    kill(process)
    assert remove_stale_directories(tmp_path) == 1


def test_directories_of_this_process_stay(tmp_path: Path) -> None:
    with ScratchDirectory("opm-index-", tmp_path) as first, ScratchDirectory("opm-index-", tmp_path) as second:
        assert remove_stale_directories(tmp_path) == 0
        assert {Path(first), Path(second)} == set(tmp_path.iterdir())
        assert Path(first).stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["opm-index-operator", "opm-index-abcd1234", "opm-index-abcd1234.scratch2", "scratch"])
def test_directories_with_other_names_stay(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(mode=0o700)
    assert remove_stale_directories(tmp_path) == 0
    assert (tmp_path / name).is_dir()


def test_symbolic_links_and_files_stay(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    (target / "file").touch()
    (tmp_path / "opm-index-abcd1234.scratch").symlink_to(target)
    (tmp_path / "opm-index-abcd1235.scratch").touch(mode=0o600)
    assert remove_stale_directories(tmp_path) == 0
    assert (target / "file").exists()
    assert len(list(tmp_path.iterdir())) == 3


def test_symbolic_links_in_a_stale_directory_are_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").touch()
    path = create_stale(tmp_path)
    (path / "link").symlink_to(target)
    assert remove_stale_directories(tmp_path) == 1
    assert (target / "file").exists()


def test_directories_readable_by_other_users_stay(tmp_path: Path) -> None:
    """Scratch directories are never created with this mode."""
    path = create_stale(tmp_path)
    path.chmod(0o755)
    assert remove_stale_directories(tmp_path) == 0
    assert path.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_directories_of_other_users_stay(tmp_path: Path) -> None:
    path = create_stale(tmp_path)
    os.chown(path, UID, UID)
    assert remove_stale_directories(tmp_path) == 0
    assert path.exists()


@pytest.mark.parametrize(("mode", "removed"), [(0o777, 0), (0o1777, 1)])
def test_nothing_is_removed_where_other_users_may_rename_files(tmp_path: Path, mode: int, removed: int) -> None:
    create_stale(tmp_path)
    tmp_path.chmod(mode)
    assert remove_stale_directories(tmp_path) == removed


def test_directory_removed_before_it_is_locked_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = scratch._lock
    removed: list[str] = []

    def remove_before_lock(path: str) -> int | None:
        if not removed:
            removed.append(path)
            assert remove_stale_directories(tmp_path) == 1
        return lock(path)

    monkeypatch.setattr(scratch, "_lock", remove_before_lock)
    with ScratchDirectory("opm-index-", tmp_path) as path:
        assert [path] != removed
        assert Path(path).is_dir()
    assert list(tmp_path.iterdir()) == []


def test_missing_directory(tmp_path: Path) -> None:
    assert remove_stale_directories(tmp_path / "missing") == 0
