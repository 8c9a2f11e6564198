"""JSON values, and their encoding as by Go's encoding/json, which index databases contain."""

from __future__ import annotations

import json
import math
import re
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

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
)
_LINE_ESCAPES = (
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def encode(value: JsonValue, integers: range = INT64) -> bytes:
    """Encode as compact JSON: keys sorted by their bytes, ``<``, ``>`` and ``&`` escaped, no trailing newline.

    Args:
        value: The value; it may be modified.
        integers: Range of the numbers to encode as integers: ``INT64`` for Kubernetes objects, ``UINT64`` for opaque
            values. Other numbers are encoded as floats, without a point if they are whole and below 1e21.

    Raises:
        ValueError: For infinite numbers, NaN, lone surrogates and too deep nesting.
    """
    try:
        text = orjson.dumps(_normalize(value, integers), option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return escape_html(text)


def escape_html(text: bytes) -> bytes:
    """Escape the characters in JSON that Go's encoder escapes by default: ``<``, ``>``, ``&``, U+2028 and U+2029."""
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    if b"\xe2" in text:  # their first byte, which is found much faster than the whole character
        for character, escape in _LINE_ESCAPES:
            text = text.replace(character, escape)
    return text


def _normalize(value: JsonValue, integers: range) -> object:
    """Replace the numbers that orjson encodes differently than Go, in place.

    Optimized, since it visits every value of every manifest.
    """
    if isinstance(value, dict):
        _normalize_members(value, value.items(), integers)
    elif isinstance(value, list):
        _normalize_members(value, enumerate(value), integers)
    elif isinstance(value, float) or (isinstance(value, int) and value not in integers):
        return orjson.Fragment(go_float(float(value)).encode())
    return value


def _normalize_members(value: Any, members: Iterable[tuple[object, Any]], integers: range) -> None:
    for key, member in members:
        kind = type(member)
        if kind is str:
            continue
        if kind is dict:
            _normalize_members(member, member.items(), integers)
        elif kind is list:
            _normalize_members(member, enumerate(member), integers)
        elif kind is float or kind is int:
            value[key] = _normalize(member, integers)


def replace_lone_surrogates(value: JsonValue) -> JsonValue:
    """Return the value with U+FFFD for each lone surrogate in its strings, as Go decodes them.

    Raises:
        RecursionError: For too deep nesting.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [replace_lone_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {str(replace_lone_surrogates(key)): replace_lone_surrogates(member) for key, member in value.items()}
    return value


def go_float(value: float) -> str:
    """Format a float as Go's JSON encoder does: the shortest text, with an exponent below 1e-6 and from 1e21.

    >>> go_float(1e-7), go_float(1e20), go_float(1e21)
    ('1e-7', '100000000000000000000', '1e+21')

    Raises:
        ValueError: For infinite numbers and NaN.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a JSON number")
    if value == 0:
        return "0"
    shortest = Decimal(repr(value)).normalize()
    if 1e-6 <= abs(value) < 1e21:
        return f"{shortest:f}"
    digits, exponent = f"{shortest:e}".split("e")
    return f"{digits}e{int(exponent):+d}"


def float_text(value: float) -> str:
    """Format a float as sigs.k8s.io/yaml does where a string is expected: the shortest text of a 32-bit float.

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


_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\n\r]+')
_WHITESPACE = re.compile(r"[ \t\n\r]*")
_HTML_ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})
_decode = json.JSONDecoder().raw_decode


def compact(raw: str) -> str:
    """Remove whitespace between tokens and escape characters as Go's encoder does; numbers and keys are unchanged.

    >>> compact('{"b": [1.0, "<a b>"],  "a": null}')
    '{"b":[1.0,"\\\\u003ca b\\\\u003e"],"a":null}'
    """
    return _TOKEN.sub(lambda match: match.group(1) or "", raw).translate(_HTML_ESCAPES)


def is_json(raw: str) -> bool:
    """Return whether the text is valid JSON."""
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return True


def elements(raw: str) -> list[str]:
    """Return the text of each element of a JSON list, none for null.

    Raises:
        ValueError: The text is not a JSON list.
    """
    if _parsed(raw, list) is None:
        return []
    found, position = [], _skip(raw, raw.index("[") + 1)
    while raw[position] != "]":
        _, end = _decode(raw, position)
        found.append(raw[position:end])
        position = _after(raw, end)
    return found


def members(raw: str) -> dict[str, str]:
    """Return the text of each member of a JSON object, none for null; of duplicates the last.

    Raises:
        ValueError: The text is not a JSON object.
    """
    if _parsed(raw, dict) is None:
        return {}
    found, position = {}, _skip(raw, raw.index("{") + 1)
    while raw[position] != "}":
        name, end = _decode(raw, position)
        start = _skip(raw, _skip(raw, end) + 1)
        _, end = _decode(raw, start)
        found[name] = raw[start:end]
        position = _after(raw, end)
    return found


def _parsed(raw: str, kind: type) -> object:
    """Decode the text; its callers rely on it being valid."""
    value = json.loads(raw)
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"JSON {kind.__name__} expected, found {type(value).__name__}")
    return value


def _skip(raw: str, position: int) -> int:
    match = _WHITESPACE.match(raw, position)
    return match.end() if match else position


def _after(raw: str, end: int) -> int:
    """Return the position after the comma that follows a value, if any."""
    position = _skip(raw, end)
    return _skip(raw, position + 1) if raw[position] == "," else position
