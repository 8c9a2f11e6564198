"""A temporary service of podman's API."""

from __future__ import annotations

import socket
import subprocess
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.hints import Hint
from opmkit.core.scratch import ScratchDirectory
from opmkit.imagetools.engines.errors import single_line
from opmkit.imagetools.errors import EngineUnavailable
from opmkit.imagetools.hint_terms import ImageSetting

if TYPE_CHECKING:
    from collections.abc import Mapping

_START_TIMEOUT = 30
_IDLE_TIMEOUT = 1800
_STOP_TIMEOUT = 10


class PodmanService:
    """A ``podman system service`` at a socket that only its user can open.

    It is stopped together with this object or at exit of the process. If the process is killed, the service exits
    after a period without requests.
    """

    def __init__(self, program: str, environ: Mapping[str, str]) -> None:
        """Start the service and wait until it listens; raise EngineUnavailable with its output on failure."""
        scratch = ScratchDirectory("opm-podman-")
        path = Path(scratch.name, "podman.sock")
        self.url = f"unix://{path}"
        log = Path(scratch.name, "log")
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [program, "system", "service", f"--time={_IDLE_TIMEOUT}", self.url],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(environ),
                start_new_session=True,  # not interrupted by Ctrl-C, since containers must be removed before it stops
            )
        self.stop = weakref.finalize(self, _stop, self._process, scratch)
        deadline = time.monotonic() + _START_TIMEOUT
        while not _is_listening(path):
            if self._process.poll() is not None or time.monotonic() > deadline:
                message = single_line(log.read_text(errors="replace"))
                self.stop()
                raise EngineUnavailable(
                    f"podman: the service did not start: {message}",
                    hint=Hint.any_of(
                        "check `podman info`", Hint("use {}", ImageSetting.CONTAINER_TOOL.with_value("none"))
                    ),
                )
            time.sleep(0.02)


def _is_listening(path: Path) -> bool:
    """Return whether a process listens at a socket, which exists some time before that."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _stop(process: subprocess.Popen[bytes], scratch: ScratchDirectory) -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(OSError):
        scratch.cleanup()
