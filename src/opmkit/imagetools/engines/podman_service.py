"""The service of podman's API, run for as long as it is needed."""

from __future__ import annotations

import socket
import subprocess
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.engines.errors import one_line
from opmkit.imagetools.errors import EngineUnavailable
from opmkit.imagetools.hints import Hint, Setting
from opmkit.imagetools.scratch import ScratchDirectory

if TYPE_CHECKING:
    from collections.abc import Mapping

_READY_SECONDS = 30
_IDLE_SECONDS = 1800
_STOP_SECONDS = 10


class PodmanService:
    """A ``podman system service`` of this process's own, at a socket that only its user may open.

    It ends with this object or with the process; should the process be killed, it ends by itself when nothing has
    asked it for a while.
    """

    def __init__(self, program: str, environ: Mapping[str, str]) -> None:
        """Start it and wait until it answers; raises EngineUnavailable with what it said."""
        scratch = ScratchDirectory("opm-podman-")
        path = Path(scratch.name, "podman.sock")
        self.url = f"unix://{path}"
        log = Path(scratch.name, "log")
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [program, "system", "service", f"--time={_IDLE_SECONDS}", self.url],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(environ),
                start_new_session=True,  # an interrupt is for us: containers are removed before it ends
            )
        self.stop = weakref.finalize(self, _stop, self._process, scratch)
        deadline = time.monotonic() + _READY_SECONDS
        while not _answers(path):
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = one_line(log.read_text(errors="replace"))
                self.stop()
                raise EngineUnavailable(
                    f"podman's service did not start: {said}",
                    hint=Hint.any_of("check `podman info`", Hint("use {}", Setting.CONTAINER_TOOL.with_value("none"))),
                )
            time.sleep(0.02)


def _answers(path: Path) -> bool:
    """Whether somebody listens at a socket; it may be there before that."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _stop(process: subprocess.Popen[bytes], scratch: ScratchDirectory) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(OSError):
        scratch.cleanup()
