"""Reading manifests ahead of their turn, in other processes.

Reading YAML keeps one processor busy, and a second thread of this process would only take turns with it. As a program,
this module is such a process: it reads the contents that come on its standard input and answers with the manifests.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from opmkit.bundle.manifest import ManifestCache, try_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.bundle.errors import InvalidDocument
    from opmkit.bundle.manifest import Manifest

WORTHWHILE = 2 << 20
"""Bytes of manifests that are read in less time than a process takes to start."""
_SMALL = 1 << 14
_MOST = 4


class ReadAhead:
    """Fills a cache with manifests that are going to be asked for, on the processors that are idle else.

    As a context manager; at its end it drops what it has not begun. Whatever goes wrong in the other processes, the
    manifests that they did not read are read in this one.
    """

    def __init__(self, cache: ManifestCache, processes: int | None = None) -> None:
        """Set up for so many processes, by default one for each processor but the one that this process has."""
        count = min(len(os.sched_getaffinity(0)) - 1, _MOST) if processes is None else processes
        self._cache = cache
        self._seen = 0
        self._pending: list[list[bytes]] = []
        self._idle = [_Process() for _ in range(count)]
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="read") if count > 0 else None

    def submit(self, contents: Iterable[bytes]) -> None:
        """Read these when there is time. What came last is read first: what came first is going to be asked for now."""
        large = [content for content in contents if len(content) > _SMALL]
        self._seen += sum(map(len, large))
        if self._threads is not None and self._seen > WORTHWHILE:
            self._pending.append(large)
            with contextlib.suppress(RuntimeError):  # it is over
                self._threads.submit(self._read)

    def _read(self) -> None:
        process = self._idle.pop()
        try:
            claims = [claim for content in self._pending.pop() if (claim := self._cache.claim(content)).mine]
            self._cache.settle(claims, process.read([claim.content for claim in claims]))
        finally:
            self._idle.append(process)

    def __enter__(self) -> Self:
        """The same."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the processes."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for process in self._idle:
            process.stop()


class _Process:
    """One process that reads manifests, started when there are some; without one they are read here."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._usable = bool(sys.executable)

    def read(self, contents: list[bytes]) -> Iterable[Manifest | InvalidDocument | None]:
        """Do as `try_manifest` does with each."""
        if self._usable and contents:
            try:
                return self._ask(contents)
            except (OSError, EOFError, pickle.UnpicklingError):
                self._usable = False
        return map(try_manifest, contents)

    def _ask(self, contents: list[bytes]) -> list[Manifest | InvalidDocument | None]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        source, sink = self._process.stdout, self._process.stdin
        if source is None or sink is None:
            raise EOFError
        sink.write(pickle.dumps(contents))
        sink.flush()
        answers: list[Manifest | InvalidDocument | None] = pickle.load(source)  # noqa: S301 - it is our own process
        return answers

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def _serve() -> None:
    """Answer until there is nobody to ask; an interrupt is for who asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            contents: list[bytes] = pickle.load(source)  # noqa: S301 - the process that started this one writes it
        except EOFError:
            return
        sink.write(pickle.dumps([try_manifest(content) for content in contents]))
        sink.flush()


if __name__ == "__main__":
    _serve()
