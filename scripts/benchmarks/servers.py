"""Start catalog servers and call them at full load."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import statistics
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kit.catalogs import free_port

from opmkit.index.grpc_api import METHODS, request_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LOAD_CLIENT = Path(__file__).parents[2] / "tests" / "kit" / "loadclient"
START_TIMEOUT = 60
"""Seconds until a server must listen."""


class LoadClient:
    """The Go client in ``tests/kit/loadclient``, built into a directory."""

    def __init__(self, directory: Path) -> None:
        if not shutil.which("go"):
            raise SystemExit("go: not found: it is needed to build the load client")
        self._program = directory / "loadclient"
        subprocess.run(["go", "build", "-o", str(self._program), "."], cwd=LOAD_CLIENT, check=True)

    def time_to_ready(self, argv: Sequence[str], port: int) -> float:
        """Start a server and return the seconds until its health check succeeds."""
        argv = [str(self._program), "ready", f"127.0.0.1:{port}", *argv, "--port", str(port)]
        done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
        return float(json.loads(done.stdout))

    def call(self, port: int, method: str, requests: list[dict[str, str]], callers: int, *flags: str) -> dict[str, Any]:
        """Call a method for some time and return the number of ``calls`` and the ``seconds``."""
        called, build_request = METHODS[method], request_class(method)
        messages = [base64.b64encode(build_request(**fields).SerializeToString()).decode() for fields in requests]
        argv = [str(self._program), "calls", "-address", f"127.0.0.1:{port}", "-method", called.path]
        argv += ["-callers", str(callers), *(["-streams"] if called.streams else []), *flags]
        done = subprocess.run(argv, input=json.dumps(messages).encode(), stdout=subprocess.PIPE, check=True)
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def time_lists(self, server: RunningServer, runs: int) -> tuple[float, float]:
        """Return the seconds of the first list of all bundles, and the median of the following ones."""
        seconds = [self.call(server.port, "ListBundles", [{}], 1, "-limit", "1")["seconds"] for _ in range(runs + 1)]
        return seconds[0], statistics.median(seconds[1:])


@dataclass(frozen=True)
class RunningServer:
    """The process id and port of a server."""

    process: int
    port: int


@contextmanager
def running_server(client: LoadClient, argv: Sequence[str]) -> Iterator[RunningServer]:
    """Start a server and wait for its first response."""
    port = free_port()
    process = subprocess.Popen([*argv, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_TIMEOUT
        while not _listens(port) and time.monotonic() < deadline:
            time.sleep(0.02)
        client.call(port, "ListPackages", [{}], 1, "-limit", "1")
        yield RunningServer(process.pid, port)
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
