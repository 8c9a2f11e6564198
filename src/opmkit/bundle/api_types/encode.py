"""Encoding of objects as Go programs write them after decoding them into API types.

Fields without ``omitempty`` are written even if they are absent, others are not written if they are empty, and
quantities are written in their canonical form.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct

from opmkit.bundle.api_types.decode import (
    DecodeMode,
    FieldType,
    Tables,
    decode_struct,
    field_types,
    load_always_written,
    parse_type,
)
from opmkit.bundle.versions import tolerant_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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


class Encoded(Struct, frozen=True):
    """An object as Go programs write it, with its unknown fields; values of the wrong type are missing."""

    value: dict[str, Any]
    mismatches: tuple[TypeMismatch, ...] = ()
    unknown: tuple[UnknownField, ...] = ()


def encode_struct(value: JsonValue, struct: str) -> Encoded:
    """Decode a value of a YAML document into a struct of the newest field tables, and encode it.

    Unlike Go, this retains unknown fields.
    """
    decoded = decode_struct(value, struct, DecodeMode.YAML)
    encoded = encode_decoded(decoded.value, struct)
    unknown = tuple(field for field in decoded.unknown if not _differs_in_case(field))
    for field in unknown:
        _copy_field(cast("dict[str, JsonValue]", value), encoded, field.path)
    return Encoded(encoded, decoded.mismatches, unknown)


def encode_decoded(members: Mapping[str, Any], struct: str) -> dict[str, Any]:
    """Encode the decoded fields of a struct of the newest field tables, in the order of its fields."""
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
        return encode_decoded(value, field_type.name)
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
        return encode_decoded(value, struct)
    if isinstance(value, list) and other == "list":
        return [encode_decoded(item or {}, struct) for item in value]
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
        return encode_decoded({}, field_type.name)
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


_PARTS = re.compile(r"(?P<sign>[+-]?)0*(?P<whole>\d*)(?:\.(?P<decimals>\d*))?(?P<suffix>[a-zA-Z].*)?", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"": 0, "Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_NANO = 10**9
_MAX = 2**63 - 1
_MAX_DIGITS = 18
_MAX_BINARY_DIGITS = 14


def canonical_quantity(text: str) -> str:
    """Return the text of a valid quantity after decoding and encoding.

    >>> [canonical_quantity(text) for text in ("0.5", "1000m", "2048Mi", "0.5Gi", "1000", "100m")]
    ['500m', '1', '2Gi', '512Mi', '1k', '100m']

    Raises:
        ValueError: The quantity is invalid.
    """
    match = _PARTS.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a valid quantity")
    sign, whole, decimals, suffix = (match[name] or "" for name in ("sign", "whole", "decimals", "suffix"))
    digits = (whole or "0") + decimals
    is_binary = suffix.endswith("i")
    exponent = _BINARY[suffix] if is_binary else _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    if _is_written_as_read(digits, decimals, exponent, is_binary=is_binary):
        return text.strip()
    value = int(digits) * (Fraction(1024) if is_binary else Fraction(10)) ** exponent / 10 ** len(decimals)
    value = Fraction(ceil(value * _NANO), _NANO)
    if not value:
        return "0"
    prefix = "-" if sign == "-" else ""
    if is_binary:
        value = min(value, Fraction(_MAX))
        if value >= 1024 and value.denominator == 1:
            return prefix + _binary(int(value))
    return prefix + _decimal(value, has_exponent=suffix not in _DECIMAL and not is_binary)


def _is_written_as_read(digits: str, decimals: str, exponent: int, *, is_binary: bool) -> bool:
    """Return whether a short quantity seems to be canonical; Kubernetes does not change those."""
    if is_binary:
        fits = not decimals and len(digits) + 3 * exponent <= _MAX_BINARY_DIGITS
        return fits and int(digits) % 8 != 0
    scale = exponent - len(decimals)
    fits = len(digits) <= _MAX_DIGITS and scale >= -9
    return fits and scale % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")


def _binary(value: int) -> str:
    power = 0
    while value % 1024 == 0:
        value, power = value // 1024, power + 1
    return f"{value}{list(_BINARY)[power]}" if power < len(_BINARY) else str(value)


def _decimal(value: Fraction, *, has_exponent: bool) -> str:
    number, exponent = value * _NANO, -9
    while number % 1000 == 0:
        number, exponent = number / 1000, exponent + 3
    if has_exponent:
        return f"{number}e{exponent}" if exponent else str(number)
    suffixes = {power: suffix for suffix, power in _DECIMAL.items()}
    return f"{number}{suffixes.get(exponent, '')}"
