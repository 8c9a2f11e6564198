"""JSON values as YAML in the form of ``sigs.k8s.io/yaml``, so that tools of the ecosystem see no change of style."""

from __future__ import annotations

import functools
import re
from datetime import date
from typing import TYPE_CHECKING, Any

import yaml

from opmkit.bundle.go_yaml import resolve
from opmkit.bundle.json_value import UINT64, go_float

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.json_value import JsonValue

_WIDTH = 80
_MERGE = "<<"
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[Tt]\S+| \d{1,2}:\d{1,2}:\d{1,2}(?:\.\d+)?)?")
_DIGITS = re.compile(r"\d*")


def dump_yaml(value: JsonValue) -> bytes:
    """Write one document, without a separator."""
    dumper = functools.partial(yaml.emit, Dumper=yaml.CSafeDumper, width=_WIDTH, allow_unicode=True)
    text: str = dumper([*_started(), *_events(value), *_ended()])
    return text.encode()


def _started() -> Iterator[yaml.Event]:
    yield yaml.StreamStartEvent()
    yield yaml.DocumentStartEvent(explicit=False)


def _ended() -> Iterator[yaml.Event]:
    yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def _events(value: Any) -> Iterator[yaml.Event]:
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, True, flow_style=not value)
        for key in sorted(value, key=functools.cmp_to_key(_compare)):
            yield _text(key) if key != _MERGE else _scalar(key, '"')  # else it would be read as a merge
            yield from _events(value[key])
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        yield yaml.SequenceStartEvent(None, None, True, flow_style=not value)
        for item in value:
            yield from _events(item)
        yield yaml.SequenceEndEvent()
    else:
        yield _text(value) if isinstance(value, str) else _scalar(_plain(value), None)


def _scalar(text: str, style: str | None) -> yaml.Event:
    return yaml.ScalarEvent(None, None, (True, True), text, style=style)


def _plain(value: float | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) and value in UINT64 else go_float(float(value))


def _text(value: str) -> yaml.Event:
    """A text: in a block if it has several lines, in quotes if it would be read as something else."""
    if "\n" in value:
        return _scalar(value, "|")
    return _scalar(value, '"' if _is_ambiguous(value) else None)


def _is_ambiguous(text: str) -> bool:
    return not isinstance(resolve(text), str) or bool(_BASE_60.fullmatch(text)) or _is_date(text)


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if not match:
        return False
    try:
        year, month, day = map(int, match.groups())
        date(year, month, day)
    except ValueError:
        return False
    return True


def _compare(one: str, other: str) -> int:
    """Order keys as people do: numbers within them by their value, letters behind all else."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left == right:
            continue
        if left.isalpha() or right.isalpha():
            if left.isalpha() and right.isalpha():
                return -1 if left < right else 1
            return -1 if right.isalpha() else 1
        return _compare_numbers(one, other, place)
    return len(one) - len(other)


def _compare_numbers(one: str, other: str, place: int) -> int:
    """Compare where they differ, in a sign that is no letter; zeros count only behind other digits."""
    behind = ""
    if "0" in (one[place], other[place]) and re.search(r"[1-9]\d*$", one[:place]):
        behind = "1"
    left, right = (_digits(text, place) for text in (one, other))
    values = [int(behind + digits or "0") for digits in (left, right)]
    if values[0] != values[1]:
        return values[0] - values[1]
    if len(left) != len(right):
        return len(left) - len(right)
    return -1 if one[place] < other[place] else 1


def _digits(text: str, place: int) -> str:
    match = _DIGITS.match(text, place)
    return match.group() if match else ""
