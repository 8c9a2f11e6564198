"""Run ``opm`` on a pseudo-terminal of a width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.cli.output.terminal import text_width
from tests.kit.opm import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_DIGEST = re.compile(r"sha256:[0-9a-f]{7,12}…")
_LONG_WORD = re.compile(r"\s*(?:[\w ]+:  +)?\S+")
"""A word that may be wider than the terminal, alone or behind the name of its column."""
_CUT = re.compile(r"\w…|…\w")


def visible_lines(output: str) -> list[str]:
    """Return what a terminal shows in turn: lines, and the states of those that a program writes again."""
    parts = re.split(r"\r?\n|\r", _ESCAPE.sub("", output))
    return [part.rstrip() for part in parts]


def misfits(output: str, columns: int) -> list[str]:
    """Return the lines that are wider than the terminal, except long words, and those with cut words."""
    lines = visible_lines(output)
    wide = [line for line in lines if text_width(line) > columns and not _LONG_WORD.fullmatch(line)]
    return wide + [line for line in lines if _CUT.search(_DIGEST.sub("", line))]


@dataclass(frozen=True)
class Screen:
    """The exit status of a program and everything that it wrote to its terminal."""

    status: int
    output: str

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    @property
    def text(self) -> str:
        """The output without carriage returns."""
        return self.output.replace("\r\n", "\n")


def run_on_terminal(
    *arguments: str,
    columns: int,
    directory: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_output: Callable[[str], object] | None = None,
    interrupt_at: str = "",
) -> Screen:
    """Run ``opm`` with stdout and stderr on a terminal; ``COLUMNS`` is not set.

    ``on_output`` is called with the whole output so far, from another thread. The program gets SIGINT when the output
    contains ``interrupt_at``.
    """
    command = [str(PROGRAM), *arguments]
    environment = {**os.environ, "TERM": "xterm", **(env or {})}
    return run_program_on_terminal(
        command, columns=columns, directory=directory, env=environment, on_output=on_output, interrupt_at=interrupt_at
    )


def run_program_on_terminal(
    command: Sequence[str],
    *,
    columns: int,
    directory: Path | None,
    env: Mapping[str, str],
    on_output: Callable[[str], object] | None = None,
    interrupt_at: str = "",
    timeout: float = 60,
) -> Screen:
    """Run a program with this environment, see `run_on_terminal`."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = dict(env)
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        cwd=directory,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored by processes in the background
    )
    os.close(follower)
    chunks: list[bytes] = []

    def react(output: str) -> None:
        if on_output is not None:
            on_output(output)
        if interrupt_at and interrupt_at in output:
            process.send_signal(signal.SIGINT)

    reader = threading.Thread(target=_read, args=(leader, chunks, react))
    reader.start()
    try:
        status = process.wait(timeout=timeout)
    finally:
        process.kill()
        reader.join()
    os.close(leader)
    return Screen(status, b"".join(chunks).decode())


def _read(leader: int, chunks: list[bytes], on_output: Callable[[str], object]) -> None:
    """Read until the last writer closes the terminal, which Linux reports as an error."""
    while True:
        try:
            chunk = os.read(leader, 1 << 16)
        except OSError:
            return
        if not chunk:
            return
        chunks.append(chunk)
        on_output(b"".join(chunks).decode(errors="replace"))
