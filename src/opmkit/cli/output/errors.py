"""Errors of the command line, and the output of errors and warnings."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from opmkit.cli.hints import format_hint
from opmkit.core.errors import OpmkitError
from opmkit.core.escape import escape_line
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Iterable


_NOT_A_CHOICE = r"Value error, (?P<value>'.*'|\".*\") is not one of (?P<choices>.*)"
_WRONG_TYPE = r"Input should be (?P<kind>.*?)(?:, unable to parse.*)?"
_EXTRA = r"Got unexpected extra argument\(?s?\)? \((?P<arguments>.*)\)"
_REQUIRED = "(required"
"""Text in the help of flags that a command requires."""


class UsageError(OpmkitError):
    """An invalid command line: unknown, missing or conflicting flags, or invalid arguments."""

    def __init__(
        self, message: str, command: str = "opm", *, hint: Hint | str = "", similar: Iterable[str] = ()
    ) -> None:
        """Create the error.

        Args:
            message: what is wrong.
            command: path of the command whose help is the default hint.
            hint: a better hint.
            similar: existing names to suggest.
        """
        *others, last = [*similar] or [""]
        question = f"did you mean {' or '.join([*filter(None, [', '.join(others)]), last])}?" if last else ""
        super().__init__(
            message, hint=Hint.all_of(question, hint or f"run '{command} --help' for the flags and examples")
        )


class InternalError(OpmkitError):
    """An error that opmkit does not expect: a defect of it or of a library."""

    def __init__(self, cause: BaseException) -> None:
        """Describe the exception ``cause``, and where to report it."""
        from importlib.metadata import metadata

        urls = dict(url.split(", ", 1) for url in metadata("opmkit").get_all("Project-URL") or ())
        place = f" at {urls['Issues']}" if "Issues" in urls else ""
        super().__init__(
            f"internal error: {type(cause).__name__}: {cause}",
            hint=f"report this as an issue of opmkit{place}, with the output of the same command with --debug",
        )


def conflicting_flags(first: str, second: str, command: str = "opm") -> UsageError:
    """Return the error for two flags or arguments that cannot be combined."""
    return UsageError(f"{first} and {second} are mutually exclusive", command)


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that ``name`` is a prefix or a misspelling of."""
    from difflib import get_close_matches

    names = sorted(known)
    completions = [candidate for candidate in names if len(name) > 1 and candidate.startswith(name)]
    return list(dict.fromkeys([*completions, *get_close_matches(name, names)]))[:3]


def to_opmkit_error(error: Exception) -> OpmkitError:
    """Return the error to report, with a message of one line and a hint."""
    if isinstance(error, OpmkitError):
        return error
    if isinstance(error, OSError):
        return OpmkitError(format_os_error(error), hint=_os_error_hint(error))
    if isinstance(error, MemoryError):
        return OpmkitError("out of memory", hint="raise the memory limit, or pass less input to one command")
    if isinstance(error.__cause__, EOFError):  # of a prompt
        return OpmkitError("standard input: unexpected end", hint="answer the prompt, or use the flag instead of it")
    if not hasattr(error, "format_message"):  # that typer's exceptions have
        return InternalError(error)
    return _usage_error(error)


def _usage_error(error: Any) -> UsageError:
    """Return the error for an exception of typer, which has a message and perhaps a context and a parameter."""
    import re

    message: str = error.message
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "opm"
    name = _parameter_name(getattr(error, "param", None))
    if name and (found := re.fullmatch(_NOT_A_CHOICE, message, re.DOTALL)):
        value, choices = found["value"][1:-1], re.findall(r"'([^']*)'", found["choices"])
        return UsageError(
            f'invalid value of {name}: "{value}"',
            command,
            hint=f"use {', '.join(choices)}",
            similar=similar_names(value, choices),
        )
    if name and (found := re.fullmatch(_WRONG_TYPE, message, re.DOTALL)):
        return UsageError(f"invalid value of {name}: it must be {found['kind']}", command)
    if found := re.fullmatch(_EXTRA, message, re.DOTALL):
        count = len(found["arguments"].split())
        noun = "argument" if count == 1 else "arguments"
        return UsageError(f"unexpected {noun}: {found['arguments']}", command, hint=_flag_hint(context, count))
    return UsageError(error.format_message().rstrip("."), command)


def _parameter_name(parameter: Any) -> str:
    """Return the long name of a flag, or the metavar of an argument; "" without a parameter."""
    if parameter is None:
        return ""
    long = [name for name in parameter.opts if name.startswith("--")]
    return str((long or [(parameter.metavar or "").strip("[].") or parameter.opts[0]])[0])


def _flag_hint(context: Any, count: int) -> str:
    """Return a hint to use as many flags that the command requires as there are arguments, "" if it requires none."""
    flags = (
        [each for each in context.command.params if _REQUIRED in (getattr(each, "help", "") or "")] if context else []
    )
    if not flags:
        return ""
    names = " and ".join(map(_parameter_name, flags[:count]))
    return f"pass {'it' if count == 1 else 'them'} with {names}, see '{context.command_path} --help'"


def exit_code(error: OpmkitError) -> int:
    """Return the exit code of opm for the error."""
    return int(getattr(error, "exit_code", 1))


def failure_document(error: OpmkitError) -> dict[str, Any]:
    """Return the JSON form of the error, in plain JSON types, with the details that it has as JSON."""
    summary = {**error.to_dict(), "hint": format_hint(error.hint), "exit_code": exit_code(error)}
    return {"error": summary, **getattr(error, "as_dict", dict)()}


def print_error(error: BaseException) -> None:
    """Print ``error`` to stderr: a line that starts with ``Error: ``, which callers search for, and its hint."""
    first, *others = error.lines if isinstance(error, OpmkitError) else [str(error)]
    print_to_stderr(f"Error: {first or type(error).__name__}", *others)
    if isinstance(error, OpmkitError):
        print_hint(error.hint)


def print_hint(hint: Hint | str) -> None:
    """Print a hint, unless it is empty, to stderr."""
    if text := format_hint(hint):
        print_to_stderr(f"  hint: {text}")


def print_warning(message: str, *details: str) -> None:
    """Print a warning to stderr, with further lines below it."""
    print_to_stderr(f"Warning: {message}", *details)


def print_warnings(messages: Iterable[str]) -> None:
    """Print each warning to stderr."""
    for message in messages:
        print_warning(message)


def print_to_stderr(*lines: str) -> None:
    """Print lines for people to stderr, wrapped between words if they are wider than the terminal.

    Unprintable characters in them, including line breaks, are escaped.
    """
    from opmkit.cli.output.terminal import fit_line

    for line in lines:
        print(fit_line(escape_line(line), sys.stderr), file=sys.stderr)


def announce_standard_input() -> None:
    """Say on a terminal that the command waits for input there; call this before reading it."""
    if sys.stdin.isatty():
        print_to_stderr("Reading standard input; Ctrl-D ends it")


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an error and of its causes to stderr, each message on one line."""
    from traceback import format_tb

    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause:
        print_traceback(cause)
        print_to_stderr("", "This error led to another one:", "")
    print_to_stderr("Traceback (most recent call last):")
    for entry in format_tb(error.__traceback__):
        print_to_stderr(*entry.rstrip("\n").split("\n"))
    print_to_stderr(f"{type(error).__module__}.{type(error).__qualname__}: {error}")


def format_os_error(error: OSError) -> str:
    """Return the file and the cause of an error of the operating system in one line."""
    cause = error.strerror or str(error)
    return f"{os.fspath(error.filename)}: {cause}" if error.filename else cause


def _os_error_hint(error: OSError) -> str:
    import errno

    if error.errno == errno.ENOSPC:
        return "free some space, or set TMPDIR and OPM_STORE to directories on another disk; nothing was changed"
    if error.errno in (errno.EACCES, errno.EPERM) and error.filename:
        from pathlib import Path

        from opmkit.core.files import permission_hint

        return permission_hint(Path(os.fsdecode(error.filename)))
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "choose a writable path with TMPDIR, OPM_STORE or the flag that names it"
    return ""
