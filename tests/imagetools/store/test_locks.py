"""Locks by name among real processes, and where their files are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import StoreError
from opmkit.imagetools.store import locks
from opmkit.imagetools.store.locks import NamedLocks
from opmkit.imagetools.store.private import private_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLDER = """
import sys
from opmkit.imagetools.store.locks import NamedLocks
with NamedLocks(sys.argv[1:]).acquire():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the locks, in one for temporary files that only this test has."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path / f"opmkit-{os.getuid()}"


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    """Another process that has the locks ``a`` and ``b``."""
    argv = [sys.executable, "-c", HOLDER, "b", "a"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_lock_is_waited_for_and_names_who_is_waited_for(
    holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "TIMEOUT_SECONDS", 0.1)
    with NamedLocks(["c"]).acquire():
        pass
    with pytest.raises(StoreError, match="b: timed out") as caught, NamedLocks(["c", "b"]).acquire():
        pass
    assert "other process" in str(caught.value.hint)
    with NamedLocks(["c"]).acquire():  # was given back
        pass
    holder.communicate()
    with NamedLocks(["a", "b"]).acquire():
        pass


def test_a_process_that_is_killed_holds_up_nobody(holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with NamedLocks(["a", "b"]).acquire():
        pass


def test_who_has_a_lock_may_take_it_again() -> None:
    mine = NamedLocks(["a", "b", "a"])
    with mine.acquire(), mine.acquire():
        pass


def test_a_directory_of_somebody_else_is_not_used(
    place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert private_directory() == place
    assert place.stat().st_mode & 0o777 == 0o700
    place.chmod(0o770)
    with pytest.raises(StoreError, match="only this user can write to"):
        private_directory()
    place.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="only this user can write to") as caught:
        private_directory()
    assert "TMPDIR" in str(caught.value.hint)
    with caplog.at_level("WARNING"), NamedLocks(["a"]).acquire():
        assert "without locks" in caplog.text
    assert not any((tmp_path / "elsewhere").iterdir())
