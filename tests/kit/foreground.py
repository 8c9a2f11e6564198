"""Commands that run while a test observes and signals them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.opm import Opm

_SECONDS = 30


def start_command(opm: Opm, *arguments: str) -> subprocess.Popen[str]:
    """Start the command as a shell starts it in the foreground."""

    def default_handlers() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

    return subprocess.Popen(
        opm.argv(*arguments),
        cwd=opm.directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=default_handlers,
        env={**os.environ, **opm.env},
    )


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until a condition holds; fail after half a minute."""
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
