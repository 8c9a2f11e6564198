"""Typed access to the fields of untrusted JSON documents, with limits and errors that name the field."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import orjson
from msgspec import Struct

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.errors import InvalidImage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_DEPTH = 100
_MAPS = frozenset({"Labels", "annotations", "ExposedPorts", "Volumes"})
"""Fields of images whose value is a map: names in it may differ in their case only."""
_MAX_STRINGS = 10_000
_HINT = "the image is damaged or not a container image; build and push it again"


class Fields(Struct, frozen=True):
    """A JSON object and its path in the document, such as ``manifest.config``. Null fields count as absent."""

    values: Mapping[str, object]
    path: str

    @classmethod
    def from_value(cls, value: object, path: str) -> Fields:
        """Wrap a decoded JSON value.

        Raises:
            InvalidImage: The value is not an object.
        """
        if not isinstance(value, dict):
            raise invalid_field(path, "an object", value)
        return cls(value, path)

    @classmethod
    def from_image_json(cls, raw: bytes, path: str, *, limit: int) -> Fields:
        """Decode the JSON text of an image as clusters do, which are written in Go.

        Raises:
            InvalidImage: The text is not valid JSON, or not an object; or the names of two fields are equal, or only
                differ in their case. Go takes the last one, or merges them.
            LimitExceeded: The text is too long or nested too deeply.
        """
        fields = cls.from_json(raw, path, limit=limit)
        _check_names(json.loads(raw, object_pairs_hook=_Members, parse_int=str, parse_float=str), path)
        return fields

    @classmethod
    def from_json(cls, raw: bytes, path: str, *, limit: int) -> Fields:
        """Decode JSON text of at most ``limit`` bytes.

        Raises:
            InvalidImage: The text is not valid JSON, or not an object.
            LimitExceeded: The text is too long or nested too deeply.
        """
        return cls.from_value(decode_json(raw, path, limit=limit), path)

    def get(self, key: str) -> object:
        """Return the raw value, or None if the field is absent."""
        return self.values.get(key)

    def require_only(self, *keys: str) -> None:
        """Raise InvalidImage if the object has a field with another name."""
        for key in self.values:
            if key not in keys:
                raise InvalidImage(f"{self._path_of(key)}: unknown field; expected {', '.join(keys)}", hint=_HINT)

    def string(self, key: str, default: str | None = None) -> str:
        """Return a string field, which is required unless there is a default."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise invalid_field(self._path_of(key), "a string", value)
        return value

    def integer(self, key: str) -> int:
        """Return a required integer field, 0 to 2^63-1."""
        value = self.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
            raise invalid_field(self._path_of(key), "a non-negative integer", value)
        return value

    def boolean(self, key: str) -> bool:
        """Return a boolean field, by default False."""
        value = self.get(key)
        if not isinstance(value, bool | None):
            raise invalid_field(self._path_of(key), "a boolean", value)
        return bool(value)

    def nested(self, key: str) -> Fields:
        """Return an object field, by default empty."""
        value, path = self.get(key), self._path_of(key)
        return Fields({}, path) if value is None else Fields.from_value(value, path)

    def items(self, key: str, *, limit: int) -> Iterator[tuple[str, object]]:
        """Return the elements of a list field, each with its path.

        Raises:
            InvalidImage: The field is not a list.
            LimitExceeded: The list has more than ``limit`` elements.
        """
        value = self.get(key)
        value = [] if value is None else value
        path = self._path_of(key)
        if not isinstance(value, list):
            raise invalid_field(path, "a list", value)
        if len(value) > limit:
            raise LimitExceeded(f"{path}: {len(value)} elements exceed the limit of {limit}", hint=_HINT)
        return ((f"{path}[{position}]", item) for position, item in enumerate(value))

    def strings(self, key: str, *, limit: int = _MAX_STRINGS) -> tuple[str, ...]:
        """Return a list of at most ``limit`` strings, by default empty."""
        items = tuple(self.items(key, limit=limit))
        for path, item in items:
            if not isinstance(item, str):
                raise invalid_field(path, "a string", item)
        return cast("tuple[str, ...]", tuple(item for _, item in items))

    def positions(self, key: str, count: int) -> tuple[int, ...]:
        """Return a list of positions in another list of ``count`` elements, by default empty."""
        items = tuple(self.items(key, limit=count))
        for path, item in items:
            if not isinstance(item, int) or isinstance(item, bool) or not 0 <= item < count:
                raise invalid_field(path, f"an integer below {count}", item)
        return cast("tuple[int, ...]", tuple(item for _, item in items))

    def string_map(self, key: str) -> dict[str, str]:
        """Return an object with string values, by default empty."""
        fields = self.nested(key)
        return {name: fields.string(name) for name in fields.values}

    def _path_of(self, key: str) -> str:
        return f"{self.path}.{key}"


def decode_json(raw: bytes, path: str, *, limit: int) -> object:
    """Decode JSON text of at most ``limit`` bytes; errors begin with ``path``.

    Raises:
        InvalidImage: The text is not valid JSON.
        LimitExceeded: The text is longer than ``limit`` or nested deeper than MAX_DEPTH.
    """
    if len(raw) > limit:
        raise LimitExceeded(f"{path}: {len(raw)} bytes exceed the limit of {limit}", hint=_HINT)
    try:
        value: object = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidImage(f"{path}: invalid JSON: {error}", hint=_HINT) from error
    _check_depth(value, path)
    return value


class _Members(list[tuple[str, object]]):
    """The names and values of an object, in their order."""


def _check_names(value: object, path: str, *, is_map: bool = False) -> None:
    if isinstance(value, _Members):
        names: dict[str, str] = {}
        for name, child in value:
            folded = name if is_map else name.casefold()
            if folded in names:
                raise InvalidImage(f"{path}: ambiguous fields {names[folded]!r} and {name!r}", hint=_HINT)
            names[folded] = name
            _check_names(child, f"{path}.{name}", is_map=name in _MAPS)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _check_names(item, f"{path}[{position}]")


def dump_json(value: object) -> bytes:
    """Encode a value as JSON with sorted keys, so that equal values give equal bytes."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def invalid_field(path: str, expected: str, value: object) -> InvalidImage:
    """Return the error for a field that is missing or has the wrong type."""
    problem = f"missing; expected {expected}" if value is None else f"expected {expected}, got {value!r:.80}"
    return InvalidImage(f"{path}: {problem}", hint=_HINT)


def _check_depth(value: object, path: str) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise LimitExceeded(f"{path}: JSON nesting exceeds the limit of {MAX_DEPTH} levels", hint=_HINT)
