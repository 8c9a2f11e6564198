"""Other processes of this program: what keeps a processor busy is done on the others, too, which threads can't do.

A module that serves this way calls `serve` where it is run as a program, and is asked by way of a `Process`.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from opmkit.imagetools import interrupts

if TYPE_CHECKING:
    from collections.abc import Callable


def spare_processors(most: int) -> int:
    """How many processors there are beside the one that this process has; at most ``most``."""
    return min(len(os.sched_getaffinity(0)) - 1, most)


class Process:
    """One process that runs ``module``, started when it is first asked; it ends with the one that asks."""

    def __init__(self, module: str) -> None:
        """Start nothing yet."""
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._usable = bool(sys.executable)

    def ask(self, question: object) -> Any:
        """The answer; None if there is no process that gives one, now or ever again."""
        if not self._usable:
            return None
        try:
            return self._ask(question)
        except (OSError, EOFError, pickle.UnpicklingError):
            interrupts.check()
            self._usable = False
            return None

    def _ask(self, question: object) -> object:
        if self._process is None:
            process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._process = interrupts.cancel_on_signal(process, subprocess.Popen.kill)
        source, sink = self._process.stdout, self._process.stdin
        if source is None or sink is None:
            raise EOFError
        sink.write(pickle.dumps(question))
        sink.flush()
        return pickle.load(source)  # noqa: S301 - it is our own process

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def serve(answer: Callable[[Any], object]) -> None:
    """Answer until there is nobody to ask; an interrupt is for who asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            question = pickle.load(source)  # noqa: S301 - the process that started this one writes it
        except EOFError:
            return
        sink.write(pickle.dumps(answer(question)))
        sink.flush()
