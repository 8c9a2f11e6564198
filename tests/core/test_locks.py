"""Named locks between processes."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from opmkit.core import locks
from opmkit.core.errors import DiskError
from opmkit.core.locks import NamedLocks, locked_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLDER = """
import sys
from opmkit.core.locks import NamedLocks
with NamedLocks(sys.argv[1:]).acquire():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def lock_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the lock files, below a TMPDIR of this test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path / f"opmkit-{os.getuid()}"


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the locks ``a`` and ``b``."""
    argv = [sys.executable, "-c", HOLDER, "b", "a"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_timeout_names_the_lock(holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "TIMEOUT_SECONDS", 0.1)
    with NamedLocks(["c"]).acquire():
        pass
    with pytest.raises(DiskError, match="b: timed out") as caught, NamedLocks(["c", "b"]).acquire():
        pass
    assert "other process" in str(caught.value.hint)
    with NamedLocks(["c"]).acquire():  # released after the failure
        pass
    holder.communicate()
    with NamedLocks(["a", "b"]).acquire():
        pass


def test_locks_of_a_killed_process_are_released(holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with NamedLocks(["a", "b"]).acquire():
        pass


def test_reentrant() -> None:
    named_locks = NamedLocks(["a", "b", "a"])
    with named_locks.acquire(), named_locks.acquire():
        pass


def test_unusable_directory_disables_locks(
    lock_directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    lock_directory.symlink_to(tmp_path / "elsewhere")
    with caplog.at_level("WARNING"), NamedLocks(["a"]).acquire():
        assert "without locks" in caplog.text
    assert not any((tmp_path / "elsewhere").iterdir())


def test_threads_exclude_each_other(tmp_path: Path) -> None:
    events: list[str] = []
    held = threading.Event()

    def hold() -> None:
        with locked_file(tmp_path / "lock", "demo", 10):
            held.set()
            time.sleep(0.05)
            events.append("released")

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    with locked_file(tmp_path / "lock", "demo", 10):
        events.append("acquired")
    holder.join()
    assert events == ["released", "acquired"]


def test_a_lock_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DiskError, match="lock: "), locked_file(tmp_path / "lock", "demo", 1):
        pass
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(("number", "usable"), [(errno.ENOLCK, True), (errno.EIO, False)])
def test_file_systems_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, usable: bool
) -> None:
    def fail(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    with nullcontext() if usable else pytest.raises(DiskError), locked_file(tmp_path / "lock", "demo", 1):
        pass
