"""Errors of the parser of command lines, in the words of this program."""

from __future__ import annotations

import re
from typing import Any

from opmkit.cli.output.errors import UsageError, similar_names

_NOT_A_CHOICE = re.compile(r"Value error, (?P<value>'.*'|\".*\") is not one of (?P<choices>.*)", re.DOTALL)
_WRONG_TYPE = re.compile(r"Input should be (?P<kind>.*?)(?:, unable to parse.*)?", re.DOTALL)
_EXTRA = re.compile(r"Got unexpected extra argument\(?s?\)? \((?P<arguments>.*)\)", re.DOTALL)
_REQUIRED = "(required"
"""Text in the help of flags that a command requires."""


def describe_usage_error(error: Any) -> UsageError:
    """Return the error for an exception of typer, which has a message and perhaps a context and a parameter."""
    message: str = error.message
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "opm"
    name = _parameter_name(getattr(error, "param", None))
    if name and (found := _NOT_A_CHOICE.fullmatch(message)):
        value, choices = found["value"][1:-1], re.findall(r"'([^']*)'", found["choices"])
        return UsageError(
            f'invalid value of {name}: "{value}"',
            command,
            hint=f"use {', '.join(choices)}",
            similar=similar_names(value, choices),
        )
    if name and (found := _WRONG_TYPE.fullmatch(message)):
        return UsageError(f"invalid value of {name}: it must be {found['kind']}", command)
    if found := _EXTRA.fullmatch(message):
        return UsageError(f"unexpected argument: {found['arguments']}", command, hint=_flag_hint(context))
    return UsageError(error.format_message().rstrip("."), command)


def _parameter_name(parameter: Any) -> str:
    """Return the long name of a flag, or the metavar of an argument; "" without a parameter."""
    if parameter is None:
        return ""
    long = [name for name in parameter.opts if name.startswith("--")]
    return str((long or [(parameter.metavar or "").strip("[].") or parameter.opts[0]])[0])


def _flag_hint(context: Any) -> str:
    """Return a hint to use the first flag that the command requires, "" if it requires none."""
    flags = (
        [each for each in context.command.params if _REQUIRED in (getattr(each, "help", "") or "")] if context else []
    )
    if not flags:
        return ""
    return f"pass it with {_parameter_name(flags[0])}, see '{context.command_path} --help'"
