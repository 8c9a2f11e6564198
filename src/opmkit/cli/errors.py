"""Errors of the command line, and how every error is shown to a person."""

from __future__ import annotations

import os
import sys

from opmkit.imagetools.errors import AdvisedError


class UsageProblem(AdvisedError):
    """A command line that can't be understood: unknown or missing flags, wrong arguments, flags that exclude others."""

    def __init__(self, message: str, command: str = "opm") -> None:
        """Point to the help of ``command``."""
        super().__init__(message, advice=f"run '{command} --help' for the flags and examples")


def print_error(error: BaseException) -> None:
    """Write ``error`` to stderr: a line that begins ``Error: `` (callers look for it), then its advice."""
    message = str(error) or type(error).__name__
    print(f"Error: {message}", file=sys.stderr)
    advice = getattr(error, "advice", "")
    if advice:
        print(f"  hint: {_as_clause(advice)}", file=sys.stderr)


def _as_clause(advice: str) -> str:
    """Advice as it stands behind a colon: without a capital letter of its own, and without a full stop."""
    starts_a_sentence = advice[1:2].islower() or advice[1:2] == " "
    return (advice[0].lower() if starts_a_sentence else advice[0]) + advice[1:].rstrip(".")


def print_warning(message: str) -> None:
    """Write one warning to stderr."""
    print(f"Warning: {message}", file=sys.stderr)


def explain_os_error(error: OSError) -> str:
    """Name the file and the cause of an operating system's refusal, in one line."""
    cause = error.strerror or str(error)
    return f"{os.fspath(error.filename)}: {cause}" if error.filename else cause
