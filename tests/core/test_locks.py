"""Named locks between processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from opmkit.core import locks
from opmkit.core.errors import DiskError
from opmkit.core.locks import NamedLocks

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
