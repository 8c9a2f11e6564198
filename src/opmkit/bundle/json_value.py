"""JSON values, and their text in the encoding of Go's standard library, which is what index databases hold."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

INT64 = range(-(2**63), 2**63)
UINT64 = range(-(2**63), 2**64)
_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def encode(value: JsonValue, integers: range = INT64) -> bytes:
    """Give compact JSON: keys sorted by their bytes, no blanks, ``<``, ``>`` and ``&`` escaped, no line end.

    What is in ``integers`` is written as an integer, all other numbers as floats, of which those without fraction
    below 1e21 have no point. A Kubernetes object has signed integers; ``UINT64`` is for values that are not looked
    at. ``value`` may be changed by this.

    Raises:
        ValueError: if a number is infinite or none, a text holds half of a surrogate pair, or the nesting is too deep.
    """
    try:
        text = orjson.dumps(_normalised(value, integers), option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return escape_html(text)


def escape_html(text: bytes) -> bytes:
    """Escape in JSON what Go's encoder escapes by default: ``<``, ``>``, ``&``, U+2028 and U+2029."""
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text


def _normalised(value: JsonValue, integers: range) -> object:
    """Replace, in place, the numbers that orjson writes otherwise than Go.

    Written for speed, since every value of every manifest passes here.
    """
    if isinstance(value, dict | list):
        members: Iterable[tuple[object, JsonValue]] = value.items() if isinstance(value, dict) else enumerate(value)
        for key, member in members:
            kind = type(member)
            if kind is dict or kind is list or kind is float or kind is int:
                value[key] = _normalised(member, integers)  # type: ignore[index, call-overload, assignment]
        return value
    if isinstance(value, float) or (isinstance(value, int) and value not in integers):
        return orjson.Fragment(go_float(float(value)).encode())
    return value


def without_halves(value: JsonValue) -> JsonValue:
    """The value with U+FFFD for each half of a surrogate pair in its texts, which Go reads as that.

    Raises:
        RecursionError: if the nesting is too deep.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [without_halves(item) for item in value]
    if isinstance(value, dict):
        return {str(without_halves(key)): without_halves(member) for key, member in value.items()}
    return value


def go_float(value: float) -> str:
    """Give the shortest text of a float as Go's JSON encoder writes it: an exponent below 1e-6 and from 1e21 on.

    >>> go_float(1e-7), go_float(1e20), go_float(1e21)
    ('1e-7', '100000000000000000000', '1e+21')

    Raises:
        ValueError: if it is infinite or not a number.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} is no JSON number")
    if value == 0:
        return "0"
    shortest = Decimal(repr(value)).normalize()
    if 1e-6 <= abs(value) < 1e21:
        return f"{shortest:f}"
    digits, exponent = f"{shortest:e}".split("e")
    return f"{digits}e{int(exponent):+d}"


def float_text(value: float) -> str:
    """Give a float as Go turns one into text for YAML: the shortest that a 32 bit float keeps.

    >>> float_text(4.10), float_text(1000000.0), float_text(0.00001)
    ('4.1', '1e+06', '1e-05')
    """
    if math.isnan(value):
        return ".nan"
    try:
        single = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    scientific = next(text for digits in range(9) if _single(text := f"{single:.{digits}e}") == single)
    exponent = int(scientific.partition("e")[2])
    if not -4 <= exponent < 6:
        return scientific
    decimals = len(scientific.partition("e")[0].lstrip("-").replace(".", "")) - 1 - exponent
    return f"{float(scientific):.{max(0, decimals)}f}"


def _single(text: str) -> float:
    return float(struct.unpack("f", struct.pack("f", float(text)))[0])
