"""Typed access to the fields of a blob that reports type errors and continues.

As in Go's ``encoding/json``, names match case-insensitively, null is the zero value, and unknown fields are ignored.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from opmkit.documents.fields import describe, member, written_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opmkit.documents.json_value import JsonValue


Path: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""


class FieldReader(Struct, frozen=True):
    """A reader of the fields of a mapping.

    Attributes:
        value: The mapping.
        report: Called with the path and the problem of each field of a wrong type.
        path: The path of the mapping in its document.
    """

    value: Mapping[str, JsonValue]
    report: Callable[[Path, str], None]
    path: Path = ()

    def string(self, name: str) -> str:
        """Return a string; "" if it is absent or has a wrong type."""
        value = member(self.value, name)
        if isinstance(value, str):
            return value
        if value is not None:
            self._report_type(name, value, "a string")
        return ""

    def strings(self, name: str) -> tuple[str, ...]:
        """Return the strings in a list."""
        strings = []
        for number, item in enumerate(self.items(name)):
            if isinstance(item, str):
                strings.append(item)
            else:
                self._report_type(name, item, "a string", number)
        return tuple(strings)

    def mapping(self, name: str) -> FieldReader | None:
        """Return a reader of a mapping; None if it is absent or has a wrong type."""
        value = member(self.value, name)
        if isinstance(value, dict):
            return FieldReader(value, self.report, self._path(name))
        if value is not None:
            self._report_type(name, value, "a mapping")
        return None

    def mappings(self, name: str) -> Iterator[FieldReader]:
        """Yield readers of the mappings in a list."""
        for number, item in enumerate(self.items(name)):
            if isinstance(item, dict):
                yield FieldReader(item, self.report, self._path(name, number))
            else:
                self._report_type(name, item, "a mapping", number)

    def boolean(self, name: str) -> bool | None:
        """Return a boolean; None if it is absent or has a wrong type."""
        value = member(self.value, name)
        if isinstance(value, bool):
            return value
        if value is not None:
            self._report_type(name, value, "a boolean")
        return None

    def any(self, name: str) -> JsonValue:
        """Return a value of any type; None if it is absent."""
        return member(self.value, name)

    def items(self, name: str) -> list[JsonValue]:
        """Return the values in a list."""
        value = member(self.value, name)
        if isinstance(value, list):
            return value
        if value is not None:
            self._report_type(name, value, "a list")
        return []

    def _path(self, name: str, *index: int) -> Path:
        return (*self.path, written_key(self.value, name), *index)

    def _report_type(self, name: str, value: JsonValue, expected: str, *index: int) -> None:
        self.report(self._path(name, *index), f"is {describe(value)}, not {expected}")


def decode_base64(text: str) -> bytes | None:
    """Decode base64 text, which may contain line breaks; return None if it is invalid."""
    if "\n" in text or "\r" in text:
        text = text.replace("\n", "").replace("\r", "")
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None


def normalize_base64(text: str) -> str:
    """Return base64 text without line breaks, as Go writes it; return invalid text unchanged."""
    data = decode_base64(text)
    return text if data is None else base64.b64encode(data).decode()
