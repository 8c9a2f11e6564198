"""Validation of the default in a schema against the schema, as far as it is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.documents.lenient import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OBJECT_FIELDS = ("apiVersion", "kind", "metadata")
_IS_TYPE: Mapping[str, Callable[[object], bool]] = {
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
    """Return why the default of a schema is invalid, as a predicate; "" if it is valid or absent."""
    default = schema.get("default")
    return "" if default is None else _DefaultChecker().problem(default, schema, "", 0)


class _DefaultChecker:
    """Validates a value against a schema, up to a limit of depth and size."""

    def __init__(self) -> None:
        self._count = 0

    def problem(self, value: object, schema: Mapping[str, Any], location: str, depth: int) -> str:
        """Return the first problem of a value; ``location`` is its path in the default."""
        self._count += 1
        if depth > _MAX_DEPTH or self._count > _MAX_VALUES or value is None:
            return ""
        if problem := _scalar_problem(value, schema):
            return f"has{f' at {location}' if location else ''} {problem}"
        if isinstance(value, dict):
            return self._object_problem(value, schema, location, depth)
        if isinstance(value, list):
            item_schema = mapping(schema.get("items"))
            problems = (
                self.problem(item, item_schema, f"{location}[{number}]", depth + 1) for number, item in enumerate(value)
            )
            return next(filter(None, problems), "")
        return ""

    def _object_problem(self, value: dict[str, Any], schema: Mapping[str, Any], location: str, depth: int) -> str:
        missing = [name for name in items(schema.get("required")) if isinstance(name, str) and name not in value]
        if missing:
            return f"lacks the required field {f'{location}.{missing[0]}'.lstrip('.')}"
        properties, others = mapping(schema.get("properties")), schema.get("additionalProperties")
        is_open = others not in (None, False) or schema.get("x-kubernetes-preserve-unknown-fields") is True
        is_embedded = schema.get("x-kubernetes-embedded-resource") is True
        for name, member in value.items():
            member_location = f"{location}.{name}".lstrip(".")
            member_schema = properties.get(name, others if isinstance(others, dict) else None)
            if member_schema is None and not is_open and not (is_embedded and name in _OBJECT_FIELDS):
                return f"has the field {member_location}, which the schema does not specify"
            if problem := self.problem(member, mapping(member_schema), member_location, depth + 1):
                return problem
        return ""


def _scalar_problem(value: object, schema: Mapping[str, Any]) -> str:
    """Return how a value violates the type or the enum of a schema, or "" if it does not."""
    kind, allowed = text(schema.get("type")), items(schema.get("enum"))
    if schema.get("x-kubernetes-int-or-string") is True:
        is_valid = _IS_TYPE["integer"](value) or isinstance(value, str)
        return "" if is_valid else "a value that is not an integer or a string"
    if kind in _IS_TYPE and not _IS_TYPE[kind](value):
        return f"a value that is not of type {kind}"
    if allowed and not any(isinstance(item, bool) is isinstance(value, bool) and item == value for item in allowed):
        return "a value that is not in the enum"
    return ""
