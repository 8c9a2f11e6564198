"""Encoding of objects as Go programs write them after decoding them into API types.

Fields without ``omitempty`` are written even if they are absent, others are not written if they are empty, and
quantities are written in their canonical form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from opmkit.bundle.api_types.decode import FieldType, decode_struct, field_types, parse_type
from opmkit.bundle.api_types.quantity import canonical_quantity
from opmkit.bundle.api_types.scalars import DecodeMode
from opmkit.bundle.api_types.tables import Tables, load_always_written
from opmkit.bundle.versions import tolerant_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.bundle.api_types.decode import TypeMismatch, UnknownField
    from opmkit.documents.json_value import JsonValue

_ZERO: dict[str, JsonValue] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "number": 0,
    "quantity": "0",
    "intOrString": 0,
    "version": "0.0.0",
    "release": "",
}
"""The zero values of scalars; that of all others is null."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """An object as Go programs write it, with its unknown fields; values of the wrong type are missing."""

    value: dict[str, Any]
    mismatches: tuple[TypeMismatch, ...] = ()
    unknown: tuple[UnknownField, ...] = ()


def encode_struct(value: JsonValue, struct: str) -> Encoded:
    """Decode a value of a YAML document into a struct of the newest field tables, and encode it.

    Unlike Go, this retains unknown fields.
    """
    decoded = decode_struct(value, struct, DecodeMode.YAML)
    encoded = _encode_struct(decoded.value, struct)
    unknown = tuple(field for field in decoded.unknown if not _differs_in_case(field))
    for field in unknown:
        _copy_field(cast("dict[str, JsonValue]", value), encoded, field.path)
    return Encoded(encoded, decoded.mismatches, unknown)


def _encode_struct(members: Any, struct: str) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    always = load_always_written().get(struct, frozenset())
    for name, field_type in field_types(struct, Tables.NEWEST).items():
        if name in always:
            encoded[name] = _encode(members[name], field_type) if name in members else _zero(field_type)
        elif name in members and not _is_empty(members[name], field_type):
            encoded[name] = _encode(members[name], field_type)
    return encoded


def _is_empty(value: Any, field_type: FieldType) -> bool:
    return field_type.kind in ("[]", "{}") and not value


def _encode(value: Any, field_type: FieldType) -> Any:
    if field_type.kind == "scalar":
        return _encode_scalar(value, field_type.name)
    if field_type.kind == "struct":
        return _encode_struct(value, field_type.name)
    if field_type.kind == "|":
        return _encode_alternative(value, *field_type.name.split("|"))
    if value is None:
        return None
    item_type = parse_type(field_type.name)
    if field_type.kind == "[]":
        return [_encode_item(item, item_type) for item in value]
    return {key: _encode_item(item, item_type) for key, item in value.items()}


def _encode_item(value: Any, item_type: FieldType) -> Any:
    return _zero(item_type) if value is None else _encode(value, item_type)


def _encode_alternative(value: Any, struct: str, other: str) -> Any:
    if isinstance(value, dict):
        return _encode_struct(value, struct)
    if isinstance(value, list) and other == "list":
        return [_encode_struct(item or {}, struct) for item in value]
    return value


def _encode_scalar(value: Any, name: str) -> Any:
    if name == "quantity":
        return canonical_quantity(str(value)) if value != "" else "0"
    if name == "version":
        return str(tolerant_version(value)) if value else "0.0.0"
    return value


def _zero(field_type: FieldType) -> Any:
    """Return the value that is written for an absent field."""
    if field_type.kind == "struct" and not field_type.keeps_zero:
        return _encode_struct({}, field_type.name)
    return None if field_type.keeps_zero else _ZERO.get(field_type.name)


def _differs_in_case(field: UnknownField) -> bool:
    """Return whether the field has been decoded as another one, whose name differs only in case."""
    return str(field.path[-1]).lower() in map(str.lower, field.known)


def _copy_field(source: Any, target: Any, path: Iterable[str | int]) -> None:
    """Copy the value at a path, with its parents where they are absent."""
    *parents, last = path
    for step in parents:
        source = source[step]
        if isinstance(target, dict):
            child = target.get(str(step))
            if child is None:
                child = target[str(step)] = {} if isinstance(source, dict) else [{} for _ in source]
            target = child
        else:
            target = target[step]
    if source[last] is not None:
        target[last] = source[last]
