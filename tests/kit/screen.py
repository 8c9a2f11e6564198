"""Run ``opm`` on a pseudo-terminal of a width."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.kit.opm import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Screen:
    """The exit status of a program and everything that it wrote to its terminal."""

    status: int
    output: str

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()


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
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm", **(env or {})}
    environment.pop("COLUMNS", None)
    command = [str(PROGRAM), *arguments]
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
        status = process.wait(timeout=60)
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
