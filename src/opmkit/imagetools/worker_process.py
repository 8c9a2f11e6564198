"""Worker subprocesses for CPU-bound work.

A module that offers such work calls `serve_requests` when it is run as a program; `WorkerProcess` runs it.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from opmkit.imagetools import interrupts

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable


def spare_cpu_count(limit: int) -> int:
    """Return the number of CPUs in addition to the one that this process uses, at most ``limit``."""
    return min(len(os.sched_getaffinity(0)) - 1, limit)


class WorkerProcess:
    """A process that runs a module as a program. It starts with the first request and ends with its parent."""

    def __init__(self, module: str) -> None:
        """Prepare a process for ``module``, which calls `serve_requests`."""
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._usable = bool(sys.executable)

    def request(self, request: object) -> Any:
        """Send a request and return the response, or None if the process cannot be started or has failed."""
        if not self._usable:
            return None
        import pickle  # slow to import: not needed for a few bundles

        try:
            return self._request(request)
        except (OSError, EOFError, pickle.UnpicklingError):
            interrupts.check()
            self._usable = False
            return None

    def _request(self, request: object) -> object:
        import pickle
        import subprocess

        if self._process is None:
            process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._process = interrupts.cancel_on_signal(process, subprocess.Popen.kill)
        stdout, stdin = self._process.stdout, self._process.stdin
        if stdout is None or stdin is None:
            raise EOFError
        stdin.write(pickle.dumps(request))
        stdin.flush()
        return pickle.load(stdout)  # noqa: S301 - written by our own process

    def stop(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def serve_requests(handle: Callable[[Any], object]) -> None:
    """Respond to the requests on stdin until it is closed. SIGINT is left to the parent process."""
    import pickle

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            request = pickle.load(stdin)  # noqa: S301 - written by our parent process
        except EOFError:
            return
        stdout.write(pickle.dumps(handle(request)))
        stdout.flush()
