"""YAML encoder that formats like ``sigs.k8s.io/yaml``, so that rewriting a file of other tools makes small diffs."""

from __future__ import annotations

import functools
import re
from datetime import date
from typing import TYPE_CHECKING, Any

import yaml

from opmkit.core.escape import escape_yaml, needs_quotes
from opmkit.documents.go_yaml import resolve
from opmkit.documents.json_value import UINT64, go_float

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.documents.json_value import JsonValue

_WIDTH, _UNLIMITED = 80, 1 << 30
_OPEN_ENDED = "...\n"  # libyaml ends a document after a block scalar with final line breaks; no separator may follow
_MERGE = "<<"
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_CLOCK = r"\d{1,2}:\d{1,2}:\d{1,2}(?:[.,]\d+)?"
_DATE = re.compile(rf"(\d{{4}})-(\d{{1,2}})-(\d{{1,2}})(?:[Tt]{_CLOCK}(?:Z|[+-]\d\d:\d\d)| {_CLOCK})?", re.ASCII)
_DIGITS = re.compile(r"\d*")
_START = (yaml.StreamStartEvent(), yaml.DocumentStartEvent(explicit=False))
_END = (yaml.DocumentEndEvent(explicit=False), yaml.StreamEndEvent())


def dump_yaml(value: JsonValue) -> bytes:
    """Encode one document, without a separator. Strings that could deceive readers are escaped, see `escape_yaml`."""
    events = [*_START, *_events(value), *_END]
    is_escaped = any(
        isinstance(each, yaml.ScalarEvent) and each.style == '"' and needs_quotes(each.value) for each in events
    )
    width = _UNLIMITED if is_escaped else _WIDTH
    text: str = yaml.emit(events, Dumper=yaml.CSafeDumper, width=width, allow_unicode=True)
    text = escape_yaml(text) if is_escaped else text
    return (text[: -len(_OPEN_ENDED)] if text.endswith("\n" + _OPEN_ENDED) else text).encode()


def dump_documents(values: Sequence[JsonValue], *, explicit_start: bool) -> str:
    """Encode documents in the format of PyYAML, with keys in their order, and with the escapes of `dump_yaml`."""
    is_escaped = any(map(needs_quotes, _strings(values)))
    text: str = yaml.dump_all(
        values,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        explicit_start=explicit_start,
        width=_UNLIMITED if is_escaped else _WIDTH,
    )
    return escape_yaml(text) if is_escaped else text


class _Dumper(yaml.CSafeDumper):
    """The dumper of PyYAML, with quotes where `escape_yaml` needs them."""


def _represent_string(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"' if needs_quotes(value) else None)


_Dumper.add_representer(str, _represent_string)


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings and keys in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        yield from _strings(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _events(value: Any) -> Iterator[yaml.Event]:
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, True, flow_style=not value)
        for key in sorted(value, key=functools.cmp_to_key(_compare_keys)):
            yield _string(key) if key != _MERGE else _scalar(key, '"')  # unquoted, it would be a merge key
            yield from _events(value[key])
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        yield yaml.SequenceStartEvent(None, None, True, flow_style=not value)
        for item in value:
            yield from _events(item)
        yield yaml.SequenceEndEvent()
    else:
        yield _string(value) if isinstance(value, str) else _scalar(_literal(value), None)


def _scalar(text: str, style: str | None) -> yaml.Event:
    return yaml.ScalarEvent(None, None, (True, True), text, style=style)


def _literal(value: float | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) and value in UINT64 else go_float(float(value))


def _string(value: str) -> yaml.Event:
    """Return a block scalar for several lines, and a quoted one if the plain string would not be read as a string."""
    if needs_quotes(value):
        return _scalar(value, '"')
    if "\n" in value:
        return _scalar(value, "|")
    return _scalar(value, '"' if _is_ambiguous(value) else None)


def _is_ambiguous(text: str) -> bool:
    return not isinstance(resolve(text), str) or bool(_SEXAGESIMAL.fullmatch(text)) or _is_date(text)


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


def _compare_keys(first: str, second: str) -> int:
    """Compare keys in the order of go-yaml: numbers by value, letters after all other characters."""
    for position, (left, right) in enumerate(zip(first, second, strict=False)):
        if left == right:
            continue
        if left.isalpha() or right.isalpha():
            if left.isalpha() and right.isalpha():
                return -1 if left < right else 1
            return -1 if right.isalpha() else 1
        return _compare_numbers(first, second, position)
    return len(first) - len(second)


def _compare_numbers(first: str, second: str, position: int) -> int:
    """Compare keys at the position where they differ, in characters that are not letters."""
    prefix = ""
    if "0" in (first[position], second[position]) and re.search(r"[1-9]\d*$", first[:position]):
        prefix = "1"  # within a number, leading zeros of the rest are significant
    left, right = (_digits(key, position) for key in (first, second))
    values = [int(prefix + digits or "0") for digits in (left, right)]
    if values[0] != values[1]:
        return values[0] - values[1]
    if len(left) != len(right):
        return len(left) - len(right)
    return -1 if first[position] < second[position] else 1


def _digits(text: str, position: int) -> str:
    match = _DIGITS.match(text, position)
    return match.group() if match else ""
