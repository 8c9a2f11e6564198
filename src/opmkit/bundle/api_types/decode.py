"""Values read into typed fields, as Go's decoders do it: all that has a wrong type, and all fields that are unknown.

The tables of fields are :mod:`.csv_fields`, :mod:`.crd_fields`, :mod:`.object_fields` and :mod:`.property_fields`. The
rules are those of Go's ``encoding/json``, which ``sigs.k8s.io/yaml`` feeds, and of the conversion of untyped objects in
``k8s.io/apimachinery``; unlike them, this goes on after the first fault.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, cast

from opmkit.bundle.api_types import crd_fields, csv_fields, object_fields, property_fields
from opmkit.bundle.api_types.scalars import NULL_AS_EMPTY, SCALARS, DecodeMode
from opmkit.bundle.fields import describe
from opmkit.bundle.validation.bundle_view import mapping
from opmkit.bundle.validation.rule import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from opmkit.bundle.content import Content
    from opmkit.bundle.json_value import JsonValue
    from opmkit.bundle.validation.rule import Path


MAX_VALUES = 1_000_000
"""Values that are read, aliases expanded; an object that a cluster takes has far fewer."""


@dataclass(frozen=True, slots=True)
class TypeMismatch:
    """A value of a wrong type: where, what is wrong ("is a number, not a text"), what to do if that is plain."""

    path: Path
    problem: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field that the type does not have; ``known`` are those that it has."""

    path: Path
    known: tuple[str, ...]

    @property
    def nearest(self) -> str:
        """The known field of nearly that name, "" if none is."""
        name = str(self.path[-1])
        folded = {known.lower(): known for known in self.known}
        matches = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.75)
        return folded[matches[0]] if matches else ""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What was read. ``value`` has known fields alone, under their own names, and none at its zero value (save lists,
    maps and pointers that are there); a value of a wrong type is left out. ``plain`` tells that every `DecodeMode`
    gives the same.
    """

    value: Mapping[str, Any]
    mismatches: tuple[TypeMismatch, ...] = ()
    unknown: tuple[UnknownField, ...] = ()
    plain: bool = True

    def has_mismatch(self, *path: str | int) -> bool:
        """Tell whether the value there has a wrong type."""
        return any(fault.path == path for fault in self.mismatches)


def decode_csv(content: Content, dialect: Dialect, reading: DecodeMode | None = None) -> Decoded:
    """Read a ClusterServiceVersion, once for each way of reading; by default as the reference's loader does."""
    if reading is None:
        json_stays_json = content.is_json and dialect is Dialect.OPM_1_26
        reading = DecodeMode.JSON if json_stays_json else DecodeMode.YAML
    if dialect is not Dialect.OPM_1_26:
        return decode_cached(content.memo, content.value, csv_fields.ROOT, reading)
    memo = cast("dict[object, object]", content.memo.setdefault(_without_release, {}))
    return decode_cached(memo, _without_release(content.value), csv_fields.ROOT, reading)


def _without_release(csv: JsonValue) -> JsonValue:
    """Take out the field that is newer than the older reference."""
    if isinstance(csv, dict) and isinstance(csv.get("spec"), dict):
        spec = mapping(csv["spec"])
        return {**csv, "spec": {name: member for name, member in spec.items() if name != "release"}}
    return csv


def decode_struct(value: JsonValue, struct: str, reading: DecodeMode) -> Decoded:
    """Read a value into a type of the table; KeyError if there is no such type."""
    reader = _Reader(reading)
    found = mapping(reader.struct(value, struct))
    return Decoded(found, tuple(reader.mismatches), tuple(reader.unknown), reader.plain and not reader.mismatches)


def decode_cached(memo: dict[object, object], value: JsonValue, struct: str, reading: DecodeMode) -> Decoded:
    """Do as `decode_struct` does, unless ``memo`` has what it would give."""
    typed = memo.get((struct, reading)) or memo.get(struct)
    if typed is None:
        typed = decode_struct(value, struct, reading)
        memo[struct if typed.plain else (struct, reading)] = typed
    return cast("Decoded", typed)


def format_path(path: Iterable[str | int]) -> str:
    """Write a path as people do: ``spec.links[0].url``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


@dataclass(frozen=True, slots=True)
class _Type:
    """A list or map of ``of``, a struct of that name, it or another (``|``), or the scalar ``of``.

    What is ``kept`` is so at any value.
    """

    kind: str
    of: str
    kept: bool


_FIELDS = re.compile(r"([\w\s-]+):\s+([^\s;]+)")
_STRUCTS = {**csv_fields.STRUCTS, **crd_fields.STRUCTS, **object_fields.STRUCTS, **property_fields.STRUCTS}


@cache
def _type(text: str) -> _Type:
    pointed = text.removeprefix("*")
    if pointed[:2] in ("[]", "{}"):
        return _Type(pointed[:2], pointed[2:], kept=True)
    if "|" in pointed:
        return _Type("|", pointed, kept=True)
    kind = "struct" if pointed in _STRUCTS else "scalar"
    return _Type(kind, pointed, kept=pointed != text or pointed == "any")


@cache
def _fields(struct: str) -> tuple[dict[str, _Type], dict[str, str]]:
    """The fields of a struct with their types, and their names by themselves in lower case."""
    fields = {name: _type(text) for names, text in _FIELDS.findall(_STRUCTS[struct]) for name in names.split()}
    return fields, {name.lower(): name for name in fields}


class _Reader:
    """Reads one value, and gathers what is wrong with it. None stands for a value that is absent or at fault."""

    def __init__(self, reading: DecodeMode) -> None:
        self.mismatches: list[TypeMismatch] = []
        self.unknown: list[UnknownField] = []
        self.plain = True
        self._reading = reading
        self._path: list[str | int] = []
        self._left = MAX_VALUES
        self._readers: Mapping[str, Callable[[JsonValue, str], JsonValue]] = {
            "[]": self._list,
            "{}": self._map,
            "|": self._either,
            "struct": self.struct,
            "scalar": self._scalar,
        }

    def struct(self, value: JsonValue, name: str) -> JsonValue:
        """Read the fields in the order of their names; of several that differ in case alone, the last counts."""
        if not isinstance(value, dict):
            self._mismatch(value, "a mapping")
            return None
        found: dict[str, JsonValue] = {}
        fields, folded = _fields(name)
        for key in sorted(value):
            field = key
            if key not in fields:
                self.unknown.append(UnknownField((*self._path, key), tuple(fields)))
                field = folded.get(key.lower(), "")
                self.plain = self.plain and not field
                if not field or self._reading is DecodeMode.OBJECT:
                    continue
            read = self._member(key, value[key], fields[field])
            if read or (read is not None and fields[field].kept):
                found[field] = read
        return found

    def _list(self, value: JsonValue, item: str) -> JsonValue:
        if not isinstance(value, list):
            self._mismatch(value, "a list")
            return None
        items = [self._member(number, member, _type(item)) for number, member in enumerate(value)]
        return [_zero(item) if read is None else read for read in items]

    def _map(self, value: JsonValue, item: str) -> JsonValue:
        if not isinstance(value, dict):
            self._mismatch(value, "a mapping")
            return None
        members = {key: self._member(key, member, _type(item)) for key, member in value.items()}
        return {key: _zero(item) if read is None else read for key, read in members.items()}

    def _either(self, value: JsonValue, name: str) -> JsonValue:
        """Read a struct or the other that it may be, which a decoder of its own does that takes nothing for a text."""
        struct, _, other = name.partition("|")
        before = self._reading
        self._reading = DecodeMode.JSON if before is DecodeMode.YAML else before
        try:
            if isinstance(value, dict):
                return self.struct(value, struct)
            if other == "bool":
                return self._scalar(value, "bool")
            return self._list(value, struct if other == "list" else "string") if isinstance(value, list) else None
        finally:
            self._reading = before

    def _member(self, step: str | int, value: JsonValue, kind: _Type) -> JsonValue:
        if value is None:
            self.plain = self.plain and kind.of not in NULL_AS_EMPTY
            if kind.of not in NULL_AS_EMPTY or self._reading is DecodeMode.OBJECT:
                return None
        self._left -= 1
        if self._left < 0:
            if self._left == -1:
                self.mismatches.append(TypeMismatch((*self._path, step), f"is beyond the first {MAX_VALUES} values"))
            return None
        if kind.of == "string" and kind.kind == "scalar" and value.__class__ is str:
            return value  # as most are
        self._path.append(step)
        read = self._readers[kind.kind](value, kind.of)
        self._path.pop()
        return read

    def _scalar(self, value: JsonValue, name: str) -> JsonValue:
        try:
            read = SCALARS[name](value, self._reading)
            self.plain = self.plain and read is value
            return read
        except TypeError as error:
            self._mismatch(value, str(error))
        except ValueError as error:
            self.mismatches.append(TypeMismatch(tuple(self._path), str(error)))
        return None

    def _mismatch(self, value: JsonValue, wanted: str) -> None:
        quotes = wanted == "a text" and isinstance(value, bool | int | float)
        remedy = "Put it in quotes." if quotes else f"Write {wanted}."
        self.mismatches.append(TypeMismatch(tuple(self._path), f"is {describe(value)}, not {wanted}", remedy))


def _zero(item: str) -> JsonValue:
    kind = _type(item).kind
    return {} if kind == "struct" else "" if item in ("string", "quantity", "time") else None
