"""Temporary files of killed commands."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.kit.rawserver import RawServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.installed import InstalledOpm


@contextmanager
def silent_registry() -> Iterator[tuple[str, threading.Event]]:
    """Serve a registry that never answers; yield its host and the event of its first request."""
    requested, stopped = threading.Event(), threading.Event()

    def reply(_: str) -> Iterator[bytes]:
        requested.set()
        stopped.wait()
        yield b""

    with RawServer(reply) as server:
        yield server.host, requested
        stopped.set()


def kill_an_add(newcomer: InstalledOpm, temporary: Path) -> Path:
    """Kill an `index add` that waits for a bundle; return its temporary directory, the only one by then."""
    earlier, deadline = set(temporary.glob("opm-*")), time.monotonic() + 60
    with silent_registry() as (host, requested):
        process = newcomer.start(
            *("index", "add", "-b", f"{host}/a/b:1", "-i", "scratch", "-t", "example.com/x:1", "--use-http")
        )
        assert requested.wait(60)
        found = earlier
        while len(found) != 1 or found == earlier:  # the first bundles are requested before it is created
            assert time.monotonic() < deadline
            time.sleep(0.01)
            found = set(temporary.glob("opm-*"))
        process.kill()
        process.communicate()
    return found.pop()


def test_temporary_files_of_killed_commands_are_removed(newcomer: InstalledOpm, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    user = newcomer.with_env(TMPDIR=str(temporary))
    assert kill_an_add(user, temporary) != kill_an_add(user, temporary)
    assert "removed 1 temporary directory of killed processes" in user("image", "prune")
    assert list(temporary.glob("opm-*")) == []
