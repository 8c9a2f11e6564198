"""Reading hostile JSON into values: bounded, and with errors that name the field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import orjson

from opmkit.imagetools.errors import InvalidImage, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEPTH = 100
_ADVICE = "the image is damaged or not an image: build and push it anew"


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object and the name it goes by in errors. A field that is null counts as one that is absent."""

    values: Mapping[str, object]
    where: str

    @classmethod
    def of(cls, value: object, where: str) -> Fields:
        """The value, which has to be an object; raises InvalidImage."""
        if not isinstance(value, dict):
            raise invalid(where, "an object", value)
        return cls(value, where)

    @classmethod
    def decode(cls, raw: bytes, where: str, *, limit: int) -> Fields:
        """The object that JSON text holds; raises LimitExceeded above ``limit`` bytes, InvalidImage otherwise."""
        return cls.of(decode_json(raw, where, limit=limit), where)

    def get(self, key: str) -> object:
        """The field's value, or None."""
        return self.values.get(key)

    def text(self, key: str, default: str | None = None) -> str:
        """A string; without a default the field is required."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise invalid(f"{self.where}.{key}", "a string", value)
        return value

    def integer(self, key: str) -> int:
        """A required whole number, 0 to 2^63-1."""
        value = self.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
            raise invalid(f"{self.where}.{key}", "a whole number, not negative", value)
        return value

    def flag(self, key: str) -> bool:
        """True or false; absent is false."""
        value = self.get(key)
        if not isinstance(value, bool | None):
            raise invalid(f"{self.where}.{key}", "true or false", value)
        return bool(value)

    def nested(self, key: str) -> Fields:
        """An object; absent is empty."""
        value = self.get(key)
        return Fields({} if value is None else Fields.of(value, f"{self.where}.{key}").values, f"{self.where}.{key}")

    def items(self, key: str, *, limit: int) -> Iterator[tuple[str, object]]:
        """The elements of a list, each with its name; absent is empty. Raises LimitExceeded above the bound."""
        value = self.get(key)
        value = [] if value is None else value
        where = f"{self.where}.{key}"
        if not isinstance(value, list):
            raise invalid(where, "a list", value)
        if len(value) > limit:
            raise LimitExceeded(f"{where}: {len(value)} elements are more than the bound of {limit}", advice=_ADVICE)
        return ((f"{where}[{position}]", item) for position, item in enumerate(value))

    def texts(self, key: str, *, limit: int = 10_000) -> tuple[str, ...]:
        """A list of strings; absent is empty."""
        found = tuple(self.items(key, limit=limit))
        for where, item in found:
            if not isinstance(item, str):
                raise invalid(where, "a string", item)
        return cast("tuple[str, ...]", tuple(item for _, item in found))

    def text_map(self, key: str) -> dict[str, str]:
        """An object whose values are strings; absent is empty."""
        fields = self.nested(key)
        return {name: fields.text(name) for name in fields.values}


def decode_json(raw: bytes, where: str, *, limit: int) -> object:
    """What JSON text holds; raises LimitExceeded above ``limit`` bytes or DEPTH, InvalidImage for other text."""
    if len(raw) > limit:
        raise LimitExceeded(f"{where}: {len(raw)} bytes are more than the bound of {limit}", advice=_ADVICE)
    try:
        value: object = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidImage(f"{where} is not valid JSON: {error}", advice=_ADVICE) from error
    _check_depth(value, where)
    return value


def dump_json(value: object) -> bytes:
    """JSON text that is the same for equal values, whatever their keys' order."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def invalid(where: str, wanted: str, value: object) -> InvalidImage:
    """The error for a field that is missing or of the wrong type."""
    found = "is missing" if value is None else f"is {value!r:.80}"
    return InvalidImage(f"{where} {found}; it must be {wanted}", advice=_ADVICE)


def _check_depth(value: object, where: str) -> None:
    level = [value]
    for _ in range(DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise LimitExceeded(f"{where}: JSON nested deeper than the bound of {DEPTH}", advice=_ADVICE)
