"""A Dask scheduler with worker processes on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS = 60


class DaskCluster:
    """A scheduler and two workers, each a process with its own image store, as a context manager."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / "scheduler.json"
        self._scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def executor(self) -> str:
        """The value of ``--executor``."""
        address: str = json.loads(self._file.read_text())["address"]
        return f"dask://{address.removeprefix('tcp://')}"

    def __enter__(self) -> Self:
        self._scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show", name="scheduler"
        )
        self.workers = [self.start_worker() for _ in range(2)]
        deadline = time.monotonic() + _SECONDS
        while not self._file.exists():
            assert time.monotonic() < deadline, (self._directory / "scheduler.log").read_text()
            time.sleep(0.05)
        return self

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start another worker."""
        name = f"worker-{len(list(self._directory.glob('worker-*.log')))}"
        options = ("--nthreads", "2", "--no-nanny", "--no-dashboard", "--local-directory", str(self._directory / name))
        return self._start("worker", *options, name=name)

    def replace_workers(self) -> None:
        """Kill the workers, and start others."""
        killed, self.workers = self.workers, [self.start_worker() for _ in self.workers]
        for worker in killed:
            worker.kill()
        for worker in killed:
            worker.wait()

    def _start(self, kind: str, *options: str, name: str) -> subprocess.Popen[bytes]:
        module = f"distributed.cli.dask_{kind}"
        with (self._directory / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", module, "--scheduler-file", str(self._file), *options],
                stdout=log,
                stderr=log,
                env={**os.environ, "OPM_STORE": str(self._directory / f"{name}-store")},
            )

    def __exit__(self, *_: object) -> None:
        processes = [*self.workers, *filter(None, [self._scheduler])]
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
