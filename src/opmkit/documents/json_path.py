"""Templates of Kubernetes' JSONPath that name fields: fields, wildcards, indexes and recursion, without filters.

See https://kubernetes.io/docs/reference/kubectl/jsonpath/.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.documents.json_value import JsonValue

_MAX_LENGTH = 1000
_TEMPLATE = re.compile(r"(?P<text>[^{]+)|\{(?P<expression>(?:'[^']*'|\\.|[^\\'{}])*)\}", re.DOTALL)
_STEP = re.compile(
    r"""
    (?P<recursion>\.\.)?
    (?: (?(recursion)|\.) (?: (?P<wildcard>\*) | (?P<field>(?:\\.|[^\\\s.,\[\]$@{}*'"])+) )
      | \[ (?: (?P<all>\*) | (?P<index>-?[0-9]{1,9}) | '(?P<key>[^']+)' ) \]
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class _Wildcard(Enum):
    """Steps to several values: the members of a collection, the items of a list, or a value and all below it."""

    MEMBERS = ".*"
    ITEMS = "[*]"
    DESCENDANTS = ".."


_Step: TypeAlias = str | int | _Wildcard


class JsonPath(Struct, frozen=True):
    """A template: text, and expressions that lead to values.

    Attributes:
        text: The template.
    """

    text: str
    _parts: tuple[str | tuple[_Step, ...], ...]

    @classmethod
    def parse(cls, text: str) -> JsonPath:
        """Parse a template such as ``{.spec.containers[*].image}``. Raises ValueError."""
        if len(text) > _MAX_LENGTH:
            raise ValueError(f"it has more than {_MAX_LENGTH} characters")
        parts: list[str | tuple[_Step, ...]] = []
        position = 0
        while position < len(text):
            match = _TEMPLATE.match(text, position)
            if match is None:
                raise ValueError("a brace is not closed")
            parts.append(match["text"] or tuple(_parse_steps(match["expression"].strip())))
            position = match.end()
        if all(isinstance(part, str) for part in parts):
            raise ValueError("it has no expression in braces")
        return cls(text, tuple(parts))

    def format(self, value: JsonValue) -> str:
        """Return the text for a document, with the values of each expression separated by spaces.

        It is empty if no expression finds a value. Fields and items that do not exist, collections and null result in
        no text.
        """
        found = [part if isinstance(part, str) else " ".join(_texts(_find(value, part))) for part in self._parts]
        has_values = any(text for text, part in zip(found, self._parts, strict=True) if not isinstance(part, str))
        return "".join(found) if has_values else ""


def _parse_steps(expression: str) -> Iterator[_Step]:
    position = 1 if expression[:1] in ("$", "@") else 0
    if position == len(expression):
        raise ValueError("an expression names no field")
    while position < len(expression):
        match = _STEP.match(expression, position)
        if match is None:
            raise ValueError(f"{expression[position:][:80]!r} is not a field, wildcard or index")
        if match["recursion"]:
            yield _Wildcard.DESCENDANTS
        if match["wildcard"] or match["all"]:
            yield _Wildcard.MEMBERS if match["wildcard"] else _Wildcard.ITEMS
        elif match["index"]:
            yield int(match["index"])
        else:
            yield _ESCAPE.sub(r"\1", match["key"] or match["field"])
        position = match.end()


def _find(root: JsonValue, steps: Iterable[_Step]) -> Iterable[JsonValue]:
    values: list[JsonValue] = [root]
    for step in steps:
        if step is _Wildcard.DESCENDANTS:
            values = _descendants(values)
        else:
            values = [member for value in values for member in _members(value, step)]
    return values


def _members(value: JsonValue, step: _Step) -> Iterable[JsonValue]:
    if isinstance(value, dict):
        if step is _Wildcard.MEMBERS:
            return value.values()
        return (value[step],) if isinstance(step, str) and step in value else ()
    if isinstance(value, list):
        if isinstance(step, int):
            return (value[step],) if -len(value) <= step < len(value) else ()
        return value if isinstance(step, _Wildcard) else ()
    return ()


def _descendants(values: list[JsonValue]) -> list[JsonValue]:
    """Return the collections among the values and below them, each once, parents before their members."""
    found: dict[int, JsonValue] = {}
    pending = values[::-1]
    while pending:
        value = pending.pop()
        if isinstance(value, dict | list) and id(value) not in found:
            found[id(value)] = value
            pending.extend([*_members(value, _Wildcard.MEMBERS)][::-1])
    return list(found.values())


def _texts(values: Iterable[JsonValue]) -> Iterator[str]:
    for value in values:
        if isinstance(value, bool):
            yield str(value).lower()
        elif isinstance(value, str | int | float):
            yield str(value).removesuffix(".0") if isinstance(value, float) else str(value)
