"""Errors of the command line, and how every error is shown to a person."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from opmkit.cli.hints import format_hint
from opmkit.imagetools.errors import OpmkitError
from opmkit.imagetools.escape import escape_controls

if TYPE_CHECKING:
    from collections.abc import Iterable

    import typer


class UsageProblem(OpmkitError):
    """A command line that can't be understood: unknown or missing flags, wrong arguments, flags that exclude others."""

    def __init__(self, message: str, command: str = "opm", *, hint: str = "", similar: Iterable[str] = ()) -> None:
        """Point to the help of ``command``, unless there is a better hint, and to ``similar`` names that exist."""
        question = f"did you mean {' or '.join(similar)}? " if similar else ""
        super().__init__(message, hint=question + (hint or f"run '{command} --help' for the flags and examples"))


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three of the known names that ``name`` may be a misspelling or the beginning of."""
    from difflib import get_close_matches

    names = sorted(known)
    begun = [one for one in names if len(name) > 1 and one.startswith(name)]
    return list(dict.fromkeys([*begun, *get_close_matches(name, names)]))[:3]


def as_advised(error: OpmkitError | typer.TyperException | OSError) -> OpmkitError:
    """Return the error as it is reported: with a message of one line and a hint."""
    if isinstance(error, OpmkitError):
        return error
    if isinstance(error, OSError):
        return OpmkitError(explain_os_error(error), hint=_os_advice(error))
    context: Any = getattr(error, "ctx", None)
    return UsageProblem(error.format_message().rstrip("."), context.command_path if context else "opm")


def exit_code(error: OpmkitError) -> int:
    """Return the exit code of ``opm`` for the error."""
    return int(getattr(error, "exit_code", 1))


def failure_document(error: OpmkitError) -> dict[str, Any]:
    """Return the error in the JSON form of failures, in plain JSON types."""
    return {"error": {"message": error.message, "hint": format_hint(error.hint), "exit_code": exit_code(error)}}


def print_error(error: BaseException) -> None:
    """Write ``error`` to stderr: a line that begins ``Error: `` (callers look for it), then its hint."""
    first, *others = error.lines if isinstance(error, OpmkitError) else [str(error)]
    print_to_stderr(f"Error: {first or type(error).__name__}", *others)
    hint = format_hint(error.hint) if isinstance(error, OpmkitError) else ""
    if hint:
        print_to_stderr(f"  hint: {hint}")


def print_warning(message: str, *details: str) -> None:
    """Write one warning to stderr, with further lines below it."""
    print_to_stderr(f"Warning: {message}", *details)


def print_to_stderr(*lines: str) -> None:
    """Write lines to stderr; unprintable characters in them, line breaks among them, become visible escapes."""
    for line in lines:
        print(escape_controls(line), file=sys.stderr)


def print_traceback(error: BaseException) -> None:
    """Write the traceback of an error and of its causes to stderr, each message on one line."""
    from traceback import format_tb

    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause:
        print_traceback(cause)
        print_to_stderr("", "This error led to another one:", "")
    print_to_stderr("Traceback (most recent call last):")
    for entry in format_tb(error.__traceback__):
        print_to_stderr(*entry.rstrip("\n").split("\n"))
    print_to_stderr(f"{type(error).__module__}.{type(error).__qualname__}: {error}")


def _os_advice(error: OSError) -> str:
    import errno

    if error.errno == errno.ENOSPC:
        return "free some space, or point TMPDIR and OPM_STORE to a disk that has it; nothing was changed"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "choose a path that this user may write, with TMPDIR, OPM_STORE or the flag that names it"
    return ""


def explain_os_error(error: OSError) -> str:
    """Name the file and the cause of an operating system's refusal, in one line."""
    cause = error.strerror or str(error)
    return f"{os.fspath(error.filename)}: {cause}" if error.filename else cause
