"""Hints in terms of the command line: the flags of the running command, and commands of opm."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.core.hints import Hint

_flags: ContextVar[frozenset[str]] = ContextVar("flags", default=frozenset())


def set_command_flags(flags: Iterable[str]) -> None:
    """Set the flags of the running command, which hints may name."""
    _flags.set(frozenset(flags))


def format_hint(hint: Hint | str) -> str:
    """Return a hint as a clause: without a capital letter and a full stop, and only with flags of the command."""
    from opmkit.cli.hint_names import command_names, flag_names
    from opmkit.core.hints import as_hint

    names = {str(operation): f"'{command}'" for operation, command in command_names().items()}
    for setting, flags in flag_names().items():
        names |= {str(setting): flag for flag in flags[::-1] if flag in _flags.get()}
    return _as_clause(as_hint(hint).render(names))


def _as_clause(text: str) -> str:
    is_sentence = text[1:2].islower() or text[1:2] == " "
    text = (text[:1].lower() if is_sentence else text[:1]) + text[1:]
    return text if text.endswith("...") else text.removesuffix(".")
