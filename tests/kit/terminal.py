"""Run a program on a pseudo-terminal and send it keys."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][0-9A-Z]|[=>78])")


class Terminal:
    """A program on a pseudo-terminal; leaving the context kills it."""

    def __init__(self, argv: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
        self.output = ""
        self._seen = 0
        self.pid, self._descriptor = pty.fork()
        if not self.pid:
            os.chdir(directory)
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(argv[0], list(argv), environment)

    def send(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def expect(self, text: str, timeout: float = 30) -> str:
        """Wait for ``text`` and return the output since the last call, without escape sequences."""
        deadline = time.monotonic() + timeout
        while (end := self.output.find(text, self._seen)) < 0:
            remaining = deadline - time.monotonic()
            assert remaining > 0, f"{text!r} is not in {self.output[self._seen :]!r}"
            if select.select([self._descriptor], [], [], remaining)[0]:
                self.output = _ESCAPES.sub(
                    "", self.output + os.read(self._descriptor, 1 << 16).decode(errors="replace")
                )
        found, self._seen = self.output[self._seen : end + len(text)], end + len(text)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
