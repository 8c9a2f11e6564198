"""Temporary files of killed commands."""

from __future__ import annotations

import threading
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


def kill_an_add(newcomer: InstalledOpm) -> None:
    """Kill an `index add` that waits for a bundle."""
    with silent_registry() as (host, requested):
        process = newcomer.start(
            *("index", "add", "-b", f"{host}/a/b:1", "-i", "scratch", "-t", "example.com/x:1", "--use-http")
        )
        assert requested.wait(60)
        process.kill()
        process.communicate()


def test_temporary_files_of_killed_commands_are_removed(newcomer: InstalledOpm, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    user = newcomer.with_env(TMPDIR=str(temporary))
    kill_an_add(user)
    (first,) = temporary.glob("opm-*")
    kill_an_add(user)
    (second,) = temporary.glob("opm-*")
    assert first != second
    assert "removed 1 temporary directory of killed processes" in user("image", "prune")
    assert list(temporary.glob("opm-*")) == []
