"""A Dask scheduler with worker processes on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Self

from tests.kit.certificates import certificate_authority, client_certificate, server_certificate

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS = 60


class DaskCluster:
    """A scheduler and workers, each a process with its own image store, as a context manager.

    With ``tls`` they and their clients need certificates, which ``env`` configures.
    """

    def __init__(self, directory: Path, count: int = 2, *, tls: bool = False) -> None:
        self._directory = directory
        self._count = count
        self.env = _tls_settings(directory) if tls else {}
        self._file = directory / "scheduler.json"
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def directory(self) -> Path:
        """The directory with the files of the scheduler and the workers."""
        return self._directory

    @property
    def executor(self) -> str:
        """The value of ``--executor``."""
        address: str = json.loads(self._file.read_text())["address"]
        return address.replace("tcp://", "dask://").replace("tls://", "dask+tls://")

    def __enter__(self) -> Self:
        protocol = ("--protocol", "tls") if self.env else ()
        options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show", *protocol)
        self.scheduler = self._start("scheduler", *options, name="scheduler")
        self.workers = [self.start_worker() for _ in range(self._count)]
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

    def wait_for_workers(self) -> None:
        """Wait until all workers are registered."""
        from distributed import Client

        with Client(scheduler_file=str(self._file), set_as_default=False) as client:  # type: ignore[no-untyped-call]
            client.wait_for_workers(self._count, timeout=_SECONDS)

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
                env={**os.environ, **self.env, "OPM_STORE": str(self._directory / f"{name}-store")},
            )

    def __exit__(self, *_: object) -> None:
        processes = [*self.workers, *filter(None, [self.scheduler])]
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def _tls_settings(directory: Path) -> dict[str, str]:
    """Write certificates, and return the variables that make all parts of Dask use and require them."""
    authority = certificate_authority(directory)
    server, client = server_certificate(directory, authority), client_certificate(directory, authority)
    settings = {"CA_FILE": authority.certificate}
    for part, pair in (("SCHEDULER", server), ("WORKER", server), ("CLIENT", client)):
        settings |= {f"{part}__CERT": pair.certificate, f"{part}__KEY": pair.key}
    return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(path) for name, path in settings.items()}
