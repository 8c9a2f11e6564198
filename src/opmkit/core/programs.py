"""Programs that are run with limits of their time and output."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_CHUNK = 1 << 16


class ProgramOutput(Struct, frozen=True):
    """The exit code of a program, and the output that was requested."""

    status: int
    stdout: bytes
    stderr: bytes = b""


class ProgramLimits(Struct, frozen=True):
    """Limits of a program.

    Attributes:
        timeout: Seconds until its output must end.
        max_output: Bytes of its standard output, and of its standard error.
    """

    timeout: float
    max_output: int


def run_limited(command: Sequence[str], limits: ProgramLimits, content: bytes = b"") -> ProgramOutput:
    """Run a program with ``content``, which a pipe must have room for, as its input, and without its standard error.

    Raises:
        OSError: It cannot be run, takes too long or prints too much.
    """
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    ) as process:
        try:
            if process.stdin is not None:
                with suppress(BrokenPipeError):
                    process.stdin.write(content)
                process.stdin.close()
            return _collect(process, limits)
        finally:
            process.kill()


def run_isolated(
    command: Sequence[str], limits: ProgramLimits, directory: Path | str, environ: Mapping[str, str]
) -> ProgramOutput:
    """Run a program in a directory and with the given variables only, without input, and in a process group.

    Raises:
        OSError: It cannot be run, takes too long or prints too much; the whole group is killed.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=directory,
        env=environ,
        process_group=0,
    ) as process:
        try:
            return _collect(process, limits)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


def _collect(process: subprocess.Popen[bytes], limits: ProgramLimits) -> ProgramOutput:
    """Read the output of a process, and wait for its end."""
    deadline = time.monotonic() + limits.timeout
    outputs = {stream: bytearray() for stream in (process.stdout, process.stderr) if stream is not None}
    try:
        with selectors.DefaultSelector() as selector:
            for stream in outputs:
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise TimeoutError
                for key, _ in ready:
                    data = os.read(key.fd, _CHUNK)
                    output = outputs[key.fileobj]  # type: ignore[index]  # the streams that were registered
                    output += data
                    if not data:
                        selector.unregister(key.fileobj)
                    elif len(output) > limits.max_output:
                        raise OSError(f"the output exceeds the limit of {limits.max_output} bytes")
        status = process.wait(max(0.0, deadline - time.monotonic()))
    except (subprocess.TimeoutExpired, TimeoutError):
        raise TimeoutError(f"timed out after {limits.timeout:g} s") from None
    return ProgramOutput(status, *(bytes(output) for output in outputs.values()))
