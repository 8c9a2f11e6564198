"""Decoding of JSON values into API types, by the rules of Go's decoders.

The rules are those of ``encoding/json``, which ``sigs.k8s.io/yaml`` calls, and of the converter of unstructured objects
in ``k8s.io/apimachinery``. Unlike them, decoding continues after a value of the wrong type.
"""

from __future__ import annotations

import base64
import re
from datetime import datetime
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import orjson
from msgspec import Struct

from opmkit.bundle.versions import tolerant_version
from opmkit.documents.fields import describe
from opmkit.documents.json_value import float_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue


CSV: Final = "ClusterServiceVersion"
CRDS: Final[Mapping[str, str]] = {
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "apiextensions.k8s.io/v1beta1": "v1beta1.CustomResourceDefinition",
}
"""The structs of CustomResourceDefinitions by ``apiVersion``."""
OBJECT: Final = "PartialObjectMetadata"
"""The struct of any object: kind, apiVersion and metadata."""
PACKAGE_MANIFEST: Final = "PackageManifest"
OTHER_KINDS: Final = ("ClusterRole", "PodDisruptionBudget", "PriorityClass", "Role")
"""Further kinds of bundles with a struct of that name."""
SCORECARD: Final = "Configuration"
"""The struct of configurations of operator-sdk's scorecard."""


class Tables(Enum):
    """Releases of the Go structs."""

    NEWEST = "newest"
    OPM_1_26 = "opm-1.26"
    """Those of opm v1.26: fields that were added later are unknown."""


@cache
def load(tables: Tables) -> Mapping[str, Mapping[str, str]]:
    """Return the field types by struct and field name; ``scripts/field_tables/main.go`` describes the notation."""
    document = _read()
    structs: dict[str, dict[str, str]] = dict(document["structs"])
    for struct, changed in document["differences"].get(tables.value, {}).items():
        fields = structs.get(struct, {}) | changed
        structs[struct] = {name: kind for name, kind in fields.items() if kind is not None}
    return structs


@cache
def load_always_written() -> Mapping[str, frozenset[str]]:
    """Return the fields of the newest structs that Go programs write even if they have their zero value."""
    return {struct: frozenset(fields) for struct, fields in _read()["always"].items()}


@cache
def _read() -> Any:
    return orjson.loads(Path(__file__).with_name("field_tables.json").read_bytes())


MAX_VALUES = 1_000_000
"""Maximum number of values in one object, with aliases expanded; objects that a cluster accepts have far fewer."""


class TypeMismatch(Struct, frozen=True):
    """A value of the wrong type, or an invalid one.

    ``problem`` is a predicate such as "is a number, not a string". ``scalar`` is the scalar type of the field if the
    value has another type.
    """

    path: FieldPath
    problem: str
    hint: str = ""
    scalar: str = ""


class UnknownField(Struct, frozen=True):
    """A field that the struct does not have; ``known`` are those that it has."""

    path: FieldPath
    known: tuple[str, ...]

    @property
    def nearest(self) -> str:
        """The known field with the most similar name, or "" if none is similar."""
        import difflib  # slow to import: only for unknown fields

        name = str(self.path[-1])
        folded = {known.lower(): known for known in self.known}
        matches = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.75)
        return folded[matches[0]] if matches else ""


class Decoded(Struct, frozen=True):
    """A decoded object.

    ``value`` has only known fields, under their canonical names. As in Go, fields with a zero value are absent, except
    lists, maps and pointers; so are values of the wrong type. ``same_in_all_modes`` is True if the result does not
    depend on the `DecodeMode`.
    """

    value: Mapping[str, Any]
    mismatches: tuple[TypeMismatch, ...] = ()
    unknown: tuple[UnknownField, ...] = ()
    same_in_all_modes: bool = True

    def has_mismatch(self, *path: str | int) -> bool:
        """Return True if the value at this path has the wrong type."""
        return any(mismatch.path == path for mismatch in self.mismatches)


def decode_struct(value: JsonValue, struct: str, mode: DecodeMode, tables: Tables = Tables.NEWEST) -> Decoded:
    """Decode a value into a struct of the field tables.

    Raises:
        KeyError: The tables have no such struct.
    """
    decoder = _Decoder(mode, tables)
    decoded = cast("dict[str, Any]", decoder.struct(value, struct) or {})
    same = decoder.same_in_all_modes and not decoder.mismatches
    return Decoded(decoded, tuple(decoder.mismatches), tuple(decoder.unknown), same)


def decode_cached(
    memo: dict[object, object], value: JsonValue, struct: str, mode: DecodeMode, tables: Tables = Tables.NEWEST
) -> Decoded:
    """Return the result of `decode_struct`, stored in ``memo`` for the next call; ``memo`` belongs to ``value``."""
    any_mode, this_mode = (struct, tables), (struct, tables, mode)
    decoded = cast("Decoded | None", memo.get(this_mode) or memo.get(any_mode))
    if decoded is None:
        decoded = decode_struct(value, struct, mode, tables)
        memo[any_mode if decoded.same_in_all_modes else this_mode] = decoded
    return decoded


class FieldType(Struct, frozen=True):
    """The type of a field: a list or map of ``name``, the struct ``name``, an alternative, or a scalar.

    ``keeps_zero`` is True if a zero value is not the same as an absent one, ``is_text`` if it is a string.
    """

    kind: str
    name: str
    keeps_zero: bool
    is_text: bool = False


@cache
def parse_type(text: str) -> FieldType:
    """Parse a type in the notation of the field tables."""
    name = text.removeprefix("*")
    if name[:2] in ("[]", "{}"):
        return FieldType(name[:2], name[2:], keeps_zero=True)
    if "|" in name:
        return FieldType("|", name, keeps_zero=True)
    kind = "scalar" if name in SCALARS else "struct"
    return FieldType(kind, name, keeps_zero=name != text or name == "any", is_text=name == "string")


def field_types(struct: str, tables: Tables) -> Mapping[str, FieldType]:
    """Return the types of the fields of a struct."""
    return _fields(struct, tables)[0]


@cache
def _fields(struct: str, tables: Tables) -> tuple[dict[str, FieldType], dict[str, str]]:
    """Return the types of the fields by name, and their names by name in lower case."""
    fields = {name: parse_type(text) for name, text in load(tables)[struct].items()}
    return fields, {_fold(name): name for name in fields}


def _fold(name: str) -> str:
    """Return a name without case, as encoding/json compares names: a long s is an s, and a Kelvin sign a k."""
    return name.lower().replace("\u017f", "s")


class _Decoder:
    """Decodes one value and collects mismatches and unknown fields. Decoding to None means absent or mismatched."""

    def __init__(self, mode: DecodeMode, tables: Tables) -> None:
        self.mismatches: list[TypeMismatch] = []
        self.unknown: list[UnknownField] = []
        self.same_in_all_modes = True
        self._mode = mode
        self._tables = tables
        self._path: list[str | int] = []
        self._values_left = MAX_VALUES

    def struct(self, value: JsonValue, name: str) -> JsonValue:
        """Decode the fields in the order of their names; of names that differ only in case, the last one counts."""
        if not isinstance(value, dict):
            self._add_mismatch(value, "a mapping")
            return None
        decoded: dict[str, JsonValue] = {}
        fields, folded = _fields(name, self._tables)
        for key in sorted(value):
            field = key
            if key not in fields:
                self.unknown.append(UnknownField((*self._path, key), tuple(fields)))
                field = folded.get(_fold(key), "")
                self.same_in_all_modes = self.same_in_all_modes and not field
                if not field or self._mode is DecodeMode.OBJECT:
                    continue
            member, field_type = value[key], fields[field]
            if member.__class__ is str and field_type.is_text and self._values_left > 0:
                self._values_left -= 1  # most fields: skip the call
            else:
                member = self._member(key, member, field_type)
            if member or (member is not None and field_type.keeps_zero):
                decoded[field] = member
        return decoded

    def _list(self, value: JsonValue, item_type: str) -> JsonValue:
        if not isinstance(value, list):
            self._add_mismatch(value, "a list")
            return None
        field_type = parse_type(item_type)
        items = [self._member(number, item, field_type) for number, item in enumerate(value)]
        return [_zero(item_type) if item is None else item for item in items]

    def _map(self, value: JsonValue, item_type: str) -> JsonValue:
        if not isinstance(value, dict):
            self._add_mismatch(value, "a mapping")
            return None
        field_type = parse_type(item_type)
        items = {key: self._member(key, item, field_type) for key, item in value.items()}
        return {key: _zero(item_type) if item is None else item for key, item in items.items()}

    def _alternative(self, value: JsonValue, name: str) -> JsonValue:
        """Decode ``STRUCT|OTHER``. Such types decode themselves from JSON, so numbers are not accepted as strings."""
        struct, _, other = name.partition("|")
        outer = self._mode
        self._mode = DecodeMode.JSON if outer is DecodeMode.YAML else outer
        try:
            if isinstance(value, dict):
                return self.struct(value, struct)
            if other == "bool":
                return self._scalar(value, "bool")
            return self._list(value, struct if other == "list" else "string") if isinstance(value, list) else None
        finally:
            self._mode = outer

    def _member(self, step: str | int, value: JsonValue, field_type: FieldType) -> JsonValue:
        if value is None:
            reads_null = field_type.name in NULL_AS_EMPTY
            self.same_in_all_modes = self.same_in_all_modes and not reads_null
            if not reads_null or self._mode is DecodeMode.OBJECT:
                return None
        self._values_left -= 1
        if self._values_left < 0:
            if self._values_left == -1:
                self.mismatches.append(TypeMismatch((*self._path, step), f"is beyond the first {MAX_VALUES} values"))
            return None
        if field_type.is_text and value.__class__ is str:
            return value  # most values: skip the calls below
        self._path.append(step)
        decoded = _DECODERS[field_type.kind](self, value, field_type.name)
        self._path.pop()
        return decoded

    def _scalar(self, value: JsonValue, name: str) -> JsonValue:
        try:
            decoded = SCALARS[name](value, self._mode)
        except TypeError as error:
            self._add_mismatch(value, str(error), name)
        except ValueError as error:
            self.mismatches.append(TypeMismatch(tuple(self._path), str(error)))
        else:
            self.same_in_all_modes = self.same_in_all_modes and decoded is value
            return decoded
        return None

    def _add_mismatch(self, value: JsonValue, wanted: str, scalar: str = "") -> None:
        quotes = wanted == "a string" and isinstance(value, bool | int | float)
        hint = "Put it in quotes." if quotes else f"Write {wanted}."
        problem = f"is {describe(value)}, not {wanted}"
        self.mismatches.append(TypeMismatch(tuple(self._path), problem, hint, scalar))


_DECODERS: Mapping[str, Callable[[_Decoder, JsonValue, str], JsonValue]] = {
    "[]": _Decoder._list,
    "{}": _Decoder._map,
    "|": _Decoder._alternative,
    "struct": _Decoder.struct,
    "scalar": _Decoder._scalar,
}


def _zero(item_type: str) -> JsonValue:
    kind = parse_type(item_type).kind
    return {} if kind == "struct" else "" if item_type in ("string", "quantity", "time") else None


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
