"""Split JSON text without decoding the values, since indexes store the values of properties as written."""

from __future__ import annotations

import json
import re

_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\n\r]+')
_WHITESPACE = re.compile(r"[ \t\n\r]*")
_ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})
_decode = json.JSONDecoder().raw_decode


def compact(raw: str) -> str:
    """Remove whitespace between tokens and escape characters as Go's encoder does; numbers and keys are unchanged.

    >>> compact('{"b": [1.0, "<a b>"],  "a": null}')
    '{"b":[1.0,"\\\\u003ca b\\\\u003e"],"a":null}'
    """
    return _TOKEN.sub(lambda match: match.group(1) or "", raw).translate(_ESCAPES)


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
        ValueError: if the text is not a JSON list.
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
        ValueError: if the text is not a JSON object.
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
