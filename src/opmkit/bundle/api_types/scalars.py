"""Decoding of scalars, by the rules of Go's decoders.

Each function returns the decoded value, or a false one for the zero value of the type.

Raises:
    TypeError: with the wanted type, for a value of another type.
    ValueError: with the problem, for an invalid value of the right type.
"""

from __future__ import annotations

import base64
import re
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Final

from opmkit.bundle.versions import tolerant_version
from opmkit.documents.json_value import float_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opmkit.documents.json_value import JsonValue


class DecodeMode(Enum):
    """The ways in which Go programs decode a file into a struct."""

    YAML = "yaml"
    """YAML into the struct: numbers and booleans are accepted as strings."""
    JSON = "json"
    """JSON into the struct."""
    REWRITTEN = "rewritten"
    """JSON into an untyped value, written as JSON again (1.0 becomes 1), and that into the struct."""
    OBJECT = "object"
    """An unstructured object, as clusters convert it: field names are case-sensitive."""


def _string(value: JsonValue, mode: DecodeMode) -> JsonValue:
    if isinstance(value, str):
        return value
    if mode is DecodeMode.YAML and isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else _number_text(value)
    raise TypeError("a string")


def _number_text(value: float) -> str:
    return float_text(value) if isinstance(value, float) else str(value)


def _bool(value: JsonValue, _mode: DecodeMode) -> JsonValue:
    if isinstance(value, bool):
        return value
    raise TypeError("a boolean")


def _int32(value: JsonValue, mode: DecodeMode) -> JsonValue:
    return _integer(value, mode, 32)


def _int64(value: JsonValue, mode: DecodeMode) -> JsonValue:
    return _integer(value, mode, 64)


def _integer(value: JsonValue, mode: DecodeMode, bits: int) -> int:
    if isinstance(value, float) and mode is not DecodeMode.JSON and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("an integer")
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"is {value}, which does not fit in {bits} bits")
    return value


_QUANTITY = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?", re.ASCII)


def _quantity(value: JsonValue, _mode: DecodeMode) -> JsonValue:
    text = _number_text(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise TypeError("a quantity")
    if not _QUANTITY.fullmatch(text.strip()):
        raise ValueError(f"is {text!r}, which is not a valid quantity such as 100m, 1.5 or 32Mi")
    return text


_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def _time(value: JsonValue, _mode: DecodeMode) -> JsonValue:
    if not isinstance(value, str):
        raise TypeError("a time")
    try:
        if not _RFC3339.fullmatch(value):
            raise ValueError(value)
        datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError(f"is {value!r}, which is not a valid time such as 2024-05-31T12:00:00Z") from error
    return value


def _bytes(value: JsonValue, _mode: DecodeMode) -> JsonValue:
    if not isinstance(value, str):
        raise TypeError("a string")
    try:
        base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except ValueError as error:
        raise ValueError("is not valid base64") from error
    return value


def _number(value: JsonValue, _mode: DecodeMode) -> JsonValue:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number")
    return value


def _int_or_string(value: JsonValue, mode: DecodeMode) -> JsonValue:
    if isinstance(value, str):
        return value
    try:
        return _integer(value, mode, 32)
    except TypeError as error:
        raise TypeError("an integer or a string") from error


def _any(value: JsonValue, _mode: DecodeMode) -> JsonValue:
    return value


def _version(value: JsonValue, _mode: DecodeMode) -> JsonValue:
    """Decode a version as semver.ParseTolerant does; 0.0.0 is the zero value."""
    text = "" if value is None else value
    if not isinstance(text, str):
        raise TypeError("a string")
    try:
        version = tolerant_version(text)
    except ValueError as error:
        raise ValueError(f"is {text!r}, which is not a valid version such as 1.2.3") from error
    return "" if str(version) == "0.0.0" else text


_IDENTIFIER = re.compile(r"0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*", re.ASCII)


def _release(value: JsonValue, _mode: DecodeMode) -> JsonValue:
    text = "" if value is None else value
    if not isinstance(text, str):
        raise TypeError("a string")
    for part in text.split("."):
        if not _IDENTIFIER.fullmatch(part) or (part.isdecimal() and (len(part) > 20 or int(part) >= 2**64)):
            raise ValueError(f"is {text!r}, which is not a valid release such as 1 or rc.2")
    return text


NULL_AS_EMPTY: Final = frozenset({"version", "release"})
"""Types that decode null as an empty string; all others leave the field at its zero value."""

SCALARS: Final[Mapping[str, Callable[[JsonValue, DecodeMode], JsonValue]]] = {
    "string": _string,
    "bool": _bool,
    "int32": _int32,
    "int64": _int64,
    "number": _number,
    "bytes": _bytes,
    "quantity": _quantity,
    "time": _time,
    "intOrString": _int_or_string,
    "any": _any,
    "version": _version,
    "release": _release,
}
