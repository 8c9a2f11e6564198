"""Regular expressions from files, matched in time that is linear in the length of a text, as Go does.

The states of a nondeterministic automaton are followed at the same time, and each step is remembered, so that matching
takes the time of a lookup per character. ``re`` takes polynomial or exponential time for patterns with repetitions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_INSTRUCTIONS = 2000
"""Size of a pattern whose bounded repetitions are written out; Go has a similar limit."""
_MAX_STEPS = 20_000
"""Remembered steps of a pattern."""
_TOKEN = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)"
    r"|\[\^?\]?(?:\\.|[^\]])*\]"
    r"|\((?:\?(?:P?<\w+>|(?P<flags>[a-zA-Z]*(?:-[a-zA-Z]+)?)(?P<scope>[:)])))?"
    r"|(?P<repeat>[*+?]|\{(?:\d+(?:,\d*)?|,\d+)\})\??"
    r"|.",
    re.DOTALL,
)
_ASSERTIONS: dict[str, Callable[[str, str], bool]] = {
    "^": lambda before, after: not before,
    "\\A": lambda before, after: not before,
    "$": lambda before, after: not after,
    "\\Z": lambda before, after: not after,
    "\\b": lambda before, after: _is_word(before) != _is_word(after),
    "\\B": lambda before, after: _is_word(before) == _is_word(after),
}
_Node: TypeAlias = "tuple[str, Any]"
"""A part of a pattern: its kind, and its parts, or the function that matches a character or position."""


class UnsupportedPattern(ValueError):
    """A regular expression that `re` accepts, and that cannot be matched in linear time or is too large."""


def _is_word(char: str) -> bool:
    return char == "_" or char.isalnum()


class _Instruction(Struct, frozen=True):
    """Continue at ``targets`` if a character or position matches; without a function, in any case."""

    targets: tuple[int, ...]
    char: Callable[[str], object] | None = None
    position: Callable[[str, str], bool] | None = None


class LinearPattern:
    """A compiled regular expression."""

    def __init__(self, text: str) -> None:
        """Compile a pattern that `re` accepts; raise UnsupportedPattern."""
        self._program: list[_Instruction] = []
        self._steps: dict[tuple[frozenset[int], str, str], frozenset[int] | None] = {}
        self._end = -1
        node = _Parser(text).parse()
        self._start = self._compile(node, self._end)

    def search(self, text: str) -> bool:
        """Return whether any part of a text matches."""
        states: frozenset[int] = frozenset()
        for position in range(len(text) + 1):
            key = (states, text[position - 1 : position] if position else "", text[position : position + 1])
            if key not in self._steps:
                if len(self._steps) >= _MAX_STEPS:
                    self._steps.clear()
                self._steps[key] = self._step(*key)
            following = self._steps[key]
            if following is None:
                return True
            states = following
        return False

    def _step(self, states: frozenset[int], before: str, after: str) -> frozenset[int] | None:
        """Return the states after a character, those of a match that starts there included; None after a match."""
        found, pending, following = set[int](), [*states, self._start], set[int]()
        while pending:
            state = pending.pop()
            if state == self._end:
                return None
            if state in found:
                continue
            found.add(state)
            instruction = self._program[state]
            if instruction.char is not None:
                if after and instruction.char(after):
                    following.update(instruction.targets)
            elif instruction.position is None or instruction.position(before, after):
                pending += instruction.targets
        return frozenset(following)

    def _add(self, instruction: _Instruction) -> int:
        if len(self._program) >= MAX_INSTRUCTIONS:
            raise UnsupportedPattern("too large")
        self._program.append(instruction)
        return len(self._program) - 1

    def _compile(self, node: _Node, target: int) -> int:
        """Add the instructions of a part that continue at ``target``, and return the first."""
        kind, value = node
        match kind, value:
            case "char", _:
                return self._add(_Instruction((target,), char=value))
            case "position", _:
                return self._add(_Instruction((target,), position=value))
            case "sequence", [*parts]:
                for part in reversed(parts):
                    target = self._compile(part, target)
                return target
            case "alternatives", [*parts]:
                return self._add(_Instruction(tuple(self._compile(part, target) for part in parts)))
            case "repeat", (part, int(least), most):
                return self._compile_repeat(part, least, most, target)
        raise AssertionError(kind)

    def _compile_repeat(self, part: _Node, least: int, most: int | None, target: int) -> int:
        if most is None:
            loop = self._add(_Instruction((target,)))
            self._program[loop] = _Instruction((self._compile(part, loop), target))
            target = loop
        else:
            end = target
            for _ in range(most - least):
                target = self._add(_Instruction((self._compile(part, target), end)))
        for _ in range(least):
            target = self._compile(part, target)
        return target


class _Parser:
    """Parser of a pattern that `re` has accepted."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_TOKEN.finditer(text))
        self._position = 0

    def parse(self) -> _Node:
        """Return the pattern."""
        return self._alternatives(re.NOFLAG)

    def _alternatives(self, flags: re.RegexFlag) -> _Node:
        parts: list[_Node] = []
        sequence: list[_Node] = []
        while self._position < len(self._tokens):
            token = self._tokens[self._position]
            if token[0] == ")":
                break
            self._position += 1
            if token[0] == "|":
                parts.append(("sequence", sequence))
                sequence = []
            elif token["repeat"] and sequence:
                sequence.append(("repeat", (sequence.pop(), *_bounds(token["repeat"]))))
            elif token[0].startswith("("):
                if token["scope"] == ")":
                    flags = _with_flags(flags, token["flags"])
                    continue
                sequence.append(self._alternatives(_with_flags(flags, token["flags"] or "")))
                self._position += 1
            else:
                sequence.append(_atom(token[0], flags))
        parts.append(("sequence", sequence))
        return ("alternatives", parts) if len(parts) > 1 else parts[0]


def _bounds(text: str) -> tuple[int, int | None]:
    if text in ("*", "+", "?"):
        return int(text == "+"), 1 if text == "?" else None
    first, separator, last = text[1:-1].partition(",")
    least = int(first or 0)
    return least, (int(last) if last else None) if separator else least


def _with_flags(flags: re.RegexFlag, text: str) -> re.RegexFlag:
    """Return flags with those of a group; names have a single line, so that only the case matters."""
    enabled, _, disabled = text.partition("-")
    if set(enabled + disabled) - set("ims"):
        raise UnsupportedPattern(f"flags {text!r}")
    return (flags | re.IGNORECASE if "i" in enabled else flags) & ~(re.IGNORECASE if "i" in disabled else 0)


def _atom(token: str, flags: re.RegexFlag) -> _Node:
    """Return the part for a character, class or assertion."""
    if token in _ASSERTIONS:
        return "position", _ASSERTIONS[token]
    return "char", re.compile(token, flags).fullmatch
