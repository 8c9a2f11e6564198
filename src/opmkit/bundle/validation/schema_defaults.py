"""Whether the default in a schema is a value that the schema itself allows, as far as can be told cheaply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.bundle.lenient import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OF_OBJECTS = ("apiVersion", "kind", "metadata")
_IS: Mapping[str, Callable[[object], bool]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and float(value).is_integer(),  # type: ignore[arg-type]
    "number": lambda value: _is_number(value),
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}
_MAX_DEPTH = 50
_MAX_VALUES = 10_000


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def default_problem(schema: Mapping[str, Any]) -> str:
    """What is wrong with the default of a schema, to be said of it; "" if nothing is, or if there is none."""
    default = schema.get("default")
    return "" if default is None else _Judge().problem(default, schema, "", 0)


class _Judge:
    """Holds a value against a schema, as deep and as far as any real default reaches."""

    def __init__(self) -> None:
        self._count = 0

    def problem(self, value: object, schema: Mapping[str, Any], place: str, depth: int) -> str:
        """The first thing that keeps a value from being allowed; ``place`` is where in the default it is."""
        self._count += 1
        if depth > _MAX_DEPTH or self._count > _MAX_VALUES or value is None:
            return ""
        if told := _scalar_problem(value, schema):
            return f"has{f' at {place}' if place else ''} {told}"
        if isinstance(value, dict):
            return self._object_problem(value, schema, place, depth)
        if isinstance(value, list):
            each = mapping(schema.get("items"))
            problems = (self.problem(item, each, f"{place}[{number}]", depth + 1) for number, item in enumerate(value))
            return next(filter(None, problems), "")
        return ""

    def _object_problem(self, value: dict[str, Any], schema: Mapping[str, Any], place: str, depth: int) -> str:
        lacking = [name for name in items(schema.get("required")) if isinstance(name, str) and name not in value]
        if lacking:
            return f"lacks the required field {f'{place}.{lacking[0]}'.lstrip('.')}"
        described, others = mapping(schema.get("properties")), schema.get("additionalProperties")
        is_open = others not in (None, False) or schema.get("x-kubernetes-preserve-unknown-fields") is True
        embedded = schema.get("x-kubernetes-embedded-resource") is True
        for name, member in value.items():
            below = f"{place}.{name}".lstrip(".")
            known = described.get(name, others if isinstance(others, dict) else None)
            if known is None and not is_open and not (embedded and name in _OF_OBJECTS):
                return f"has the field {below}, which the schema does not know"
            if told := self.problem(member, mapping(known), below, depth + 1):
                return told
        return ""


def _scalar_problem(value: object, schema: Mapping[str, Any]) -> str:
    """What the type and the enum of a schema have against a value."""
    kind, allowed = text(schema.get("type")), items(schema.get("enum"))
    if schema.get("x-kubernetes-int-or-string") is True:
        return "" if _IS["integer"](value) or isinstance(value, str) else "neither an integer nor a text"
    if kind in _IS and not _IS[kind](value):
        return f"a value that is not of the type {kind}"
    if allowed and not any(isinstance(one, bool) is isinstance(value, bool) and one == value for one in allowed):
        return "a value that is not in the enum"
    return ""
