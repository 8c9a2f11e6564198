"""Conversion of values to JSON types."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

from msgspec import Struct, structs

T = TypeVar("T")


class JsonResult:
    """A dataclass or a struct that can be converted to JSON types."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in JSON types, by name, for ``json.dumps`` and similar functions."""
        return {name: to_json_types(value) for name, value in field_values(self).items()}


def to_json_types(value: Any) -> Any:
    """Convert a value to dicts, lists, texts, numbers, booleans and None.

    Enums become their values, and sets sorted lists. Values of other types, such as paths and image references, become
    their text.
    """
    if isinstance(value, JsonResult):
        return value.to_dict()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bool | int | float | str | None):
        return value
    if has_fields(value) and not _has_text(value):
        return {name: to_json_types(item) for name, item in field_values(value).items()}
    if isinstance(value, Mapping):
        return {str(key): to_json_types(item) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(to_json_types, value))
    if isinstance(value, list | tuple):
        return [to_json_types(item) for item in value]
    return str(value)


def _has_text(value: object) -> bool:
    """Report whether the type of ``value`` defines its text."""
    return type(value).__str__ is not object.__str__


def has_fields(value: Any) -> bool:
    """Report whether ``value`` is a dataclass instance or a struct."""
    return isinstance(value, Struct) or (is_dataclass(value) and not isinstance(value, type))


def field_values(value: Any) -> dict[str, Any]:
    """Return the values in a dataclass instance or a struct, by field."""
    if isinstance(value, Struct):
        return structs.asdict(value)
    return {field.name: getattr(value, field.name) for field in fields(value)}


def expect(value: Any, kind: type[T]) -> T:
    """Return a decoded value; raise TypeError unless its type is exactly ``kind``."""
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value


def field_types(sample: Any) -> dict[str, type]:
    """Return the types of the values in a dataclass instance or a struct, by field."""
    return {name: type(value) for name, value in field_values(sample).items()}


def expect_fields(value: T, types: Mapping[str, type]) -> T:
    """Return a decoded value with fields; raise TypeError for a field of another type than in ``types``."""
    for name, kind in types.items():
        expect(getattr(value, name), kind)
    return value
