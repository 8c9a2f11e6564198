"""Hints: suggestions in errors that refer to settings and operations by value, so that a front end can name them.

The library itself writes ``Setting.PLAIN_HTTP`` as ``plain_http``; the command line, as the flag for it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from opmkit.core.escape import without_logins

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Setting(StrEnum):
    """A setting that a hint refers to; the value is its name in the library's own texts.

    Packages derive enumerations of their settings from it.
    """

    def with_value(self, value: str) -> SettingValue:
        """Return the setting with a value to suggest."""
        return SettingValue(self, value)


class Operation(StrEnum):
    """An operation that a hint refers to; the value is its name in the library's own texts.

    Packages derive enumerations of their operations from it.
    """

    def with_arguments(self, arguments: str) -> OperationCall:
        """Return the operation with arguments to suggest."""
        return OperationCall(self, arguments)


class CoreOperation(Operation):
    """Operations of this package that hints refer to."""

    PRUNE_STORE = "prune_store"


class SettingValue(Struct, frozen=True):
    """A setting with the value to give it."""

    setting: Setting
    value: str


class OperationCall(Struct, frozen=True):
    """An operation with the arguments to give it."""

    operation: Operation
    arguments: str


Term = Setting | Operation | SettingValue | OperationCall | str


class Alternative(Struct, frozen=True):
    """One of the suggestions of a hint: a template with a ``{}`` for each of its terms."""

    template: str
    terms: tuple[Term, ...] = ()

    def render(self, names: Mapping[str, str] | None, assign: str) -> str | None:
        """Return the text, or None if ``names`` lacks a setting or an operation."""
        if not self.terms:
            return self.template
        words = [_render_term(term, names, assign) for term in self.terms]
        return None if None in words else self.template.format(*words)


@dataclass(frozen=True, slots=True, init=False)
class Hint:
    """A suggestion how to solve a problem: an imperative sentence, or alternatives; empty by default.

    Attributes:
        alternatives: Suggestions of which one is enough.
        further: Hints to follow as well.
    """

    alternatives: tuple[Alternative, ...]
    further: tuple[Hint, ...]

    def __init__(self, template: str = "", *terms: Term) -> None:
        """Create a hint with one alternative; if there are terms, each ``{}`` of ``template`` stands for one."""
        self._set((Alternative(template, terms),) if template else (), ())

    def _set(self, alternatives: Iterable[Alternative], further: Iterable[Hint]) -> None:
        object.__setattr__(self, "alternatives", tuple(dict.fromkeys(alternatives)))
        object.__setattr__(self, "further", tuple(dict.fromkeys(further)))

    @classmethod
    def any_of(cls, *hints: Hint | str) -> Self:
        """Return a hint with the alternatives of all ``hints``, each once."""
        parts = [as_hint(hint) for hint in hints]
        joined = cls()
        joined._set(chain(*(part.alternatives for part in parts)), chain(*(part.further for part in parts)))
        return joined

    @classmethod
    def all_of(cls, *hints: Hint | str) -> Self:
        """Return a hint that consists of all ``hints``, each once."""
        joined = cls()
        joined._set((), filter(None, map(as_hint, hints)))
        return joined

    def render(self, names: Mapping[str, str] | None, *, assign: str = " ") -> str:
        """Return the text of the hint without the alternatives that refer to something not in ``names``.

        Args:
            names: Names of settings and operations; None for those of the library.
            assign: Text between the name of a setting and its value.
        """
        texts = [alternative.render(names, assign) for alternative in self.alternatives]
        *others, last = [text for text in texts if text is not None] or [""]
        text = without_logins(f"{', '.join(others)}, or {last}" if others else last)
        for hint in self.further:
            sentence = hint.render(names, assign=assign)
            separator = " " if text.endswith((".", "?")) else "; "
            text = f"{text}{separator}{sentence}" if text and sentence else text or sentence
        return text

    def __str__(self) -> str:
        """Return the hint with the library's own names."""
        return self.render(None, assign="=")

    def __bool__(self) -> bool:
        """Return whether there is a suggestion."""
        return bool(self.alternatives or self.further)


def as_hint(hint: Hint | str) -> Hint:
    """Return a hint for a plain text."""
    return hint if isinstance(hint, Hint) else Hint(hint)


def _render_term(term: Term, names: Mapping[str, str] | None, assign: str) -> str | None:
    if isinstance(term, SettingValue):
        name = _render_term(term.setting, names, assign)
        return None if name is None else f"{name}{assign}{term.value}"
    if isinstance(term, OperationCall):
        name = _render_term(term.operation, names, assign)
        quote = "'" if name and name.endswith("'") else ""
        return None if name is None else f"{name.removesuffix(quote)} {term.arguments}{quote}"
    if isinstance(term, Setting | Operation):
        return str(term) if names is None else names.get(term)
    return term


def install_extra(name: str, prefix: str = sys.prefix) -> str:
    """Return the hint to install an extra of the package, which is not on a package index yet.

    It names the program that created the environment ``prefix``.
    """
    from importlib.util import find_spec  # slow to import: hardly any command needs it
    from pathlib import Path

    parents = Path(prefix).parts
    config = Path(prefix, "pyvenv.cfg")
    if "pipx" in parents:
        command = "pipx runpip opmkit install"
    elif ("uv", "tools") in pairwise(parents):
        command = "uv tool install"
    elif config.is_file() and "\nuv = " in f"\n{config.read_text(errors='replace')}":
        command = f"VIRTUAL_ENV={prefix} uv pip install"
    elif find_spec("pip"):
        command = "pip install"
    else:
        return f"build the image with scripts/build-runtime from an environment that has the extra {name}: OPMKIT_VENV"
    return f"install the extra in a checkout of opmkit: {command} '.[{name}]'"
