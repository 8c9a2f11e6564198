"""Standard streams whose output may be closed, or on a full or failing disk.

A failed write to stdout raises OutputError; one to stderr is ignored, since it could not be reported.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager

from opmkit.core.errors import OpmkitError
from opmkit.core.escape import escape_line

TYPE_CHECKING = False  # importing typing takes longer than printing the version
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any


class OutputError(OpmkitError):
    """Failed write to standard output; ``cause`` is the operating system's message."""

    def __init__(self, cause: str, message: str = "", *, hint: str = "") -> None:
        """Describe the failed write, or with ``message`` the work that could not be reported."""
        super().__init__(
            message or f"standard output: write failed: {cause}",
            hint=hint or "redirect standard output to a writable file or device",
        )
        self.cause = cause


class _Output(io.FileIO):
    """A file descriptor whose first failed write raises OutputError; later output is discarded."""

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
def printing_result(done: str, hint: str = "") -> Iterator[None]:
    """Run a block that prints the result of finished work.

    Args:
        done: the finished work, such as ``catalog:1: pushed``.
        hint: what to do if the result cannot be printed.

    Raises:
        OutputError: the result cannot be printed; the message begins with ``done``.
    """
    try:
        yield
        sys.stdout.flush()
    except OutputError as error:
        raise OutputError(
            error.cause,
            f"{done}, but the result cannot be printed: standard output: {error.cause}",
            hint=hint or "redirect standard output elsewhere in the next run",
        ) from error


def print_styled(lines: Iterable[tuple[str, str]]) -> None:
    """Print lines for people, on a terminal with their styles and wrapped between words, or cut after ``|``."""
    from opmkit.cli.output.terminal import cut_line, fit_line

    fitted = (
        ((cut_line if line.lstrip().startswith("| ") else fit_line)(escape_line(line), sys.stdout), style)
        for line, style in lines
    )
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        sys.stdout.writelines(f"{line}\n" for line, _ in fitted)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    for line, style in fitted:
        console.print(Text(line, style=style))


def _text_stream(raw: io.FileIO, old: object, errors: str) -> io.TextIOWrapper:
    """Return a text stream with the settings of the one that it replaces, but lines instead of unbuffered writes."""
    given = old if isinstance(old, io.TextIOWrapper) else None
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=given.encoding if given else "utf-8",
        errors=given.errors if given else errors,
        line_buffering=given.line_buffering or given.write_through if given else False,
    )
