"""Programs that run for as long as a test cluster does."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.cluster.client import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DIRECTORY = "OPMKIT_CLUSTER_BIN"
_POLL_INTERVAL = 0.05


def binary(name: str) -> str:
    """Return the path of a program that ``scripts/build-cluster`` builds; skip the test if there is no directory."""
    directory = os.environ.get(DIRECTORY)
    if not directory:
        pytest.skip(f"{DIRECTORY} is not set to a directory that scripts/build-cluster has written")
    path = Path(directory, name)
    if not path.exists():
        pytest.fail(f"{DIRECTORY}: {path} does not exist: run scripts/build-cluster")
    return str(path.absolute())


def custom_resource_definitions() -> list[Path]:
    """Return the files of OLM's CRDs, which ``scripts/build-cluster`` copies."""
    return sorted(Path(binary("crds")).glob("*.yaml"))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Program:
    """A process that ends with this one, and writes its output to ``log``."""

    def __init__(self, argv: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None) -> None:
        self.argv, self.log, self._env = list(argv), log, {**os.environ, **(env or {})}
        self.start()

    def start(self) -> None:
        """Start the process, again after :meth:`stop`."""
        setpriv = shutil.which("setpriv")
        bound = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*bound, *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._env,
                start_new_session=True,  # an interrupt of the tests stops it in order, by its fixture
            )

    def wait_until(self, ready: Callable[[], object]) -> None:
        """Return once ``ready`` returns a true value; raise RuntimeError with the end of the log if it does not."""
        deadline = time.monotonic() + PATIENCE
        while not ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                output = self.log.read_text(errors="replace")[-4000:]
                raise RuntimeError(f"{Path(self.argv[0]).name} did not start: {output}")
            time.sleep(_POLL_INTERVAL)

    def stop(self, *, patience: float = 2) -> None:
        """Terminate the process, or kill it after ``patience`` seconds."""
        self.process.terminate()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def etcd() -> str:
    """Return the path of etcd."""
    path = shutil.which("etcd")
    if path is None:
        pytest.fail("etcd is not installed: install the package etcd-server")
    return path
