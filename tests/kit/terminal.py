"""Programs on a pseudo-terminal, driven by keys."""

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
    """A program whose controlling terminal is ours; a context manager that ends it."""

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
        """Return what is printed, up to and with ``text``, since the last call; escape sequences are removed."""
        deadline = time.monotonic() + timeout
        while (end := self.output.find(text, self._seen)) < 0:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} is not in {self.output[self._seen :]!r}"
            if select.select([self._descriptor], [], [], left)[0]:
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
