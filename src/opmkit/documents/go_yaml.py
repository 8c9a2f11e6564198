"""YAML decoder with the semantics of go-yaml v2, which Kubernetes tools use through sigs.k8s.io/yaml.

libyaml parses the events. Their interpretation follows Go: YAML 1.1 booleans, octal and binary numbers, merge keys, no
base 60, timestamps as strings, unknown tags ignored, scalar keys of any type converted to strings.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import TYPE_CHECKING, Any, cast

import yaml

from opmkit.documents.errors import DuplicateKey, InvalidDocument
from opmkit.documents.json_value import float_text
from opmkit.documents.yaml_errors import syntax_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.documents.json_value import JsonValue

MAX_DEPTH = 200
"""Maximum nesting of collections, far above that of real manifests."""
MAX_EXPANSION = 64 * 1024 * 1024
"""Maximum number of characters and values in a document, with aliases expanded."""
MAX_ALIASED = 8 * 1024 * 1024
"""Maximum number of characters and values that aliases add to a document."""
MAX_DUPLICATES = 100
"""Maximum number of duplicate keys that are reported."""

_TAG = "tag:yaml.org,2002:"
_TRUE = ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"]
_FALSE = ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"]
_INFINITIES = {sign + text: float(sign + "inf") for text in (".inf", ".Inf", ".INF") for sign in ("", "+", "-")}
_CONSTANTS: dict[str, JsonValue] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
    **_INFINITIES,
}
_TYPES = {"bool": (bool,), "int": (int,), "float": (int, float), "null": (type(None),)}
_NUMBER_STARTS = frozenset("+-.0123456789")
_BASED = re.compile(r"([-+]?)0([xX][0-9a-fA-F]+|[bB][01]+|[oO]?[0-7]+)")
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LONE_BYTE = re.compile("[\udc80-\udcff]")
_UINT64 = 2**64
_INT64_MIN = -(2**63)


def load(content: bytes, duplicates: list[DuplicateKey] | None = None, *, only: bool = False) -> JsonValue:
    """Decode the first document; an empty one is None.

    Of duplicate keys the last one counts; they are appended to ``duplicates``, at most MAX_DUPLICATES of them.

    Raises:
        InvalidDocument: With line and column, for invalid YAML, values without a JSON equivalent and exceeded limits;
            with ``only``, also for content after the document.
    """
    loader = yaml.CSafeLoader(content)
    try:
        loader.get_event()
        if not loader.check_event(yaml.DocumentStartEvent):
            return None
        loader.get_event()
        value = _Decoder(loader, duplicates).document()
        if only:
            _require_end(loader, content)
        return value
    except yaml.YAMLError as error:
        raise syntax_error(error, content) from error
    finally:
        loader.dispose()


def _require_end(loader: yaml.CSafeLoader, content: bytes) -> None:
    """Raise InvalidDocument unless only empty documents follow."""
    problem = "several documents"
    try:
        while not loader.check_event(yaml.StreamEndEvent):
            event = loader.get_event()
            if isinstance(event, yaml.NodeEvent) and (not isinstance(event, yaml.ScalarEvent) or event.value):
                raise _error(event, problem)
    except yaml.YAMLError as error:  # what follows is not even a document
        found = syntax_error(error, content)
        raise InvalidDocument(problem, line=found.line, column=found.column) from error


class _Decoder:
    """Builds values from the events of one document."""

    def __init__(self, loader: yaml.CSafeLoader, duplicates: list[DuplicateKey] | None) -> None:
        self._next = cast("Callable[[], Any]", loader.get_event)
        self._anchors: dict[str, tuple[JsonValue, int] | None] = {}
        self._keys: dict[str, str] = {}  # values of plain keys that occurred before
        self._expansion = 0
        self._aliased = 0
        self._duplicates = duplicates

    def document(self) -> JsonValue:
        value = self._value(self._next(), 0)
        self._next()  # the end of the document; raises if there is anything else
        return value

    def _value(self, event: Any, depth: int) -> JsonValue:
        value: JsonValue
        before, anchor, kind = self._expansion, event.anchor, event.__class__
        if kind is yaml.ScalarEvent:
            value = _scalar(event)
            self._grow(1 + len(event.value), event)
            if anchor:
                self._anchors[anchor] = (value, self._expansion - before)
            return value
        if kind is yaml.AliasEvent:
            return self._alias(event)
        if anchor:
            self._anchors[anchor] = None
        if depth >= MAX_DEPTH:
            raise _error(event, f"more than {MAX_DEPTH} levels of nesting")
        self._grow(1, event)
        read = self._sequence if kind is yaml.SequenceStartEvent else self._mapping
        value = read(depth + 1)
        if anchor:
            self._anchors[anchor] = (value, self._expansion - before)
        return value

    def _sequence(self, depth: int) -> list[JsonValue]:
        items: list[JsonValue] = []
        while (event := self._next()).__class__ is not yaml.SequenceEndEvent:
            items.append(self._value(event, depth))
        return items

    def _mapping(self, depth: int) -> dict[str, JsonValue]:
        # nearly all keys and values are scalars: decode these without further calls
        members: dict[str, JsonValue] = {}
        merged: frozenset[str] = frozenset()
        next_event, keys, scalar = self._next, self._keys, yaml.ScalarEvent
        while (event := next_event()).__class__ is not yaml.MappingEndEvent:
            plain = event.__class__ is scalar and event.implicit[0] and not event.anchor
            key = keys.get(event.value) if plain else None
            if key is None:
                if _is_merge(event):
                    self._merge(members, depth)
                    merged = frozenset(members)
                    continue
                key = _key(self._value(event, depth), event)
                if plain:
                    keys[event.value] = key
            else:
                self._expansion += 1 + len(key)
            if key in members and key not in merged:
                self._add_duplicate(key, event)
            event = next_event()
            if event.__class__ is scalar and not event.anchor:
                self._expansion += 1 + len(event.value)
                members[key] = _scalar(event)
            else:
                members[key] = self._value(event, depth)
        return members

    def _add_duplicate(self, key: str, event: yaml.NodeEvent) -> None:
        if self._duplicates is not None and len(self._duplicates) < MAX_DUPLICATES:
            mark = cast("yaml.Mark", event.start_mark)
            self._duplicates.append(DuplicateKey(key, mark.line + 1, mark.column + 1))

    def _merge(self, members: dict[str, JsonValue], depth: int) -> None:
        """Add the members of the mappings after ``<<``; those of the first mapping take precedence."""
        event = self._next()
        value = self._value(event, depth)
        sources = value if isinstance(value, list) and not isinstance(event, yaml.AliasEvent) else [value]
        for source in reversed(sources):
            if not isinstance(source, dict):
                raise _error(event, "the value of a merge key << must be a mapping or a list of mappings")
            members.update(source)

    def _alias(self, event: yaml.AliasEvent) -> JsonValue:
        if event.anchor not in self._anchors:
            raise _error(event, f"unknown anchor {event.anchor}")
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise _error(event, f"the value of anchor {event.anchor} contains itself")
        value, size = anchored
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise _error(event, f"more than {MAX_ALIASED} values and characters added by aliases")
        self._grow(size, event)
        return value

    def _grow(self, size: int, event: yaml.NodeEvent) -> None:
        self._expansion += size
        if self._expansion > MAX_EXPANSION:
            raise _error(event, f"more than {MAX_EXPANSION} values and characters with aliases expanded")


def _error(event: yaml.NodeEvent, problem: str) -> InvalidDocument:
    mark = cast("yaml.Mark", event.start_mark)
    return InvalidDocument(problem, line=mark.line + 1, column=mark.column + 1)


def _is_merge(event: yaml.NodeEvent) -> bool:
    return (
        isinstance(event, yaml.ScalarEvent)
        and event.value == "<<"
        and (event.implicit[0] or event.tag == _TAG + "merge")
    )


def _key(value: JsonValue, event: yaml.NodeEvent) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value < 2**63:
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    raise _error(event, "a key must be a string, a number or a boolean")


def _scalar(event: yaml.ScalarEvent) -> JsonValue:
    """Return the value of a scalar by its tag, or by its form if it is plain."""
    tag, text = event.tag, event.value
    if tag is None:
        return resolve(text) if event.implicit[0] else text
    try:
        return _tagged(tag.removeprefix(_TAG), text) if tag.startswith(_TAG) else text
    except ValueError as error:
        raise _error(event, str(error)) from error


def _tagged(tag: str, text: str) -> JsonValue:
    """Return the value of a scalar with a standard tag; raise ValueError if it has another type."""
    if tag == "binary":
        return _binary(text)
    if tag not in _TYPES:
        return text
    value = resolve(text)
    if type(value) not in _TYPES[tag]:
        raise ValueError(f"{text!r} is not a !!{tag}")
    return float(value) if tag == "float" and isinstance(value, int) else value


def resolve(text: str) -> JsonValue:
    """Return the value of a plain scalar without a tag.

    >>> resolve("0644"), resolve("yes"), resolve("1_000"), resolve("1:30"), resolve("1e3")
    (420, True, 1000, '1:30', 1000.0)
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    number = _number(text)
    return text if number is None else number


def _number(text: str) -> int | float | None:
    """Return a number, None for other text and for numbers that do not fit into int64, uint64 or float64."""
    plain = text if text[0] == "." else text.replace("_", "")
    number: int | float
    if text[0] != ".":
        if match := _BASED.fullmatch(plain):
            sign, digits = match.groups()
            base = {"x": 16, "b": 2}.get(digits[0].lower(), 8)
            number = int(sign + (digits[1:] if digits[0] in "xXbBoO" else digits), base)
        elif _DECIMAL.fullmatch(plain) and len(plain) <= 20:
            number = int(plain)
        else:
            number = math.inf
        if _INT64_MIN <= number < (2**63 if plain[0] in "+-" else _UINT64):
            return number
    if not _FLOAT.fullmatch(plain):
        return None
    number = float(plain)
    return None if math.isinf(number) else number


def _binary(text: str) -> str:
    try:
        data = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except binascii.Error as error:
        raise ValueError("!!binary without valid base64") from error
    return _LONE_BYTE.sub("\ufffd", data.decode("utf-8", "surrogateescape"))
