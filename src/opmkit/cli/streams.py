"""Standard streams of a command whose output may be closed, full or broken.

A failed write to stdout is an error of its own kind; one to stderr is ignored: nothing could report it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opmkit.imagetools.errors import OpmkitError


class OutputError(OpmkitError):
    """Standard output that cannot be written; ``cause`` is the reason that the operating system gives."""

    def __init__(self, cause: str, message: str = "", *, hint: str = "") -> None:
        """Describe the failed write, or with ``message`` the work whose report it was."""
        super().__init__(
            message or f"standard output: write failed: {cause}",
            hint=hint or "redirect standard output to a file or a device that can be written",
        )
        self.cause = cause


class _Output(io.FileIO):
    """A file descriptor whose failed write raises OutputError once; what is written after that is discarded."""

    failed = False

    def write(self, content: Any) -> int:
        if self.failed:
            return memoryview(content).nbytes
        try:
            return super().write(content) or 0
        except BrokenPipeError:
            raise
        except OSError as error:
            self.failed = True
            raise OutputError(error.strerror or str(error)) from error


class _Diagnostics(io.FileIO):
    """A file descriptor whose failed writes are ignored."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content) or 0
        except OSError:
            return memoryview(content).nbytes


def replace_streams() -> None:
    """Replace ``sys.stdout`` and ``sys.stderr`` by streams that handle failed writes; descriptors must be open."""
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open for the process
    sys.stdout = _text_stream(_Output(1, "w", closefd=False), sys.stdout, "strict")
    sys.stderr = _text_stream(_Diagnostics(2, "w", closefd=False), sys.stderr, "backslashreplace")


@contextmanager
def report_on(done: str, hint: str = "") -> Iterator[None]:
    """Report that the work was done where its result can't be printed; ``done`` says what was done.

    Raises:
        OutputError: with ``done`` in its message.
    """
    try:
        yield
        sys.stdout.flush()
    except OutputError as error:
        raise OutputError(
            error.cause,
            f"{done}, but its report cannot be written: standard output: {error.cause}",
            hint=hint or "redirect standard output elsewhere in the next run",
        ) from error


def _text_stream(raw: io.FileIO, old: object, errors: str) -> io.TextIOWrapper:
    """Return a text stream with the settings of the one that it replaces."""
    given = old if isinstance(old, io.TextIOWrapper) else None
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=given.encoding if given else "utf-8",
        errors=given.errors if given else errors,
        line_buffering=given.line_buffering if given else False,
        write_through=given.write_through if given else False,
    )
