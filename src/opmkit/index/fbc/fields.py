"""The fields of blobs, read with the types that they must have; what is wrong is told, and the reading goes on.

Names match without regard to case, null is nothing, and unknown fields are passed over, as in Go's ``encoding/json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.fields import describe, member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opmkit.bundle.json_value import JsonValue

Path: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""


@dataclass(frozen=True, slots=True)
class FieldReader:
    """A mapping, the ``path`` to it in its document, and whom to ``tell`` what is wrong with its fields."""

    value: Mapping[str, JsonValue]
    tell: Callable[[Path, str], None]
    path: Path = ()

    def text(self, name: str) -> str:
        """The text of that name, "" if there is none."""
        value = member(self.value, name)
        if isinstance(value, str):
            return value
        if value is not None:
            self._tell(name, value, "a string")
        return ""

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts in a list."""
        found = []
        for number, item in enumerate(self.items(name)):
            if isinstance(item, str):
                found.append(item)
            else:
                self._tell(name, item, "a string", number)
        return tuple(found)

    def mapping(self, name: str) -> FieldReader | None:
        """The mapping of that name, None if there is none."""
        value = member(self.value, name)
        if isinstance(value, dict):
            return FieldReader(value, self.tell, (*self.path, name))
        if value is not None:
            self._tell(name, value, "a mapping")
        return None

    def mappings(self, name: str) -> Iterator[FieldReader]:
        """The mappings in a list."""
        for number, item in enumerate(self.items(name)):
            if isinstance(item, dict):
                yield FieldReader(item, self.tell, (*self.path, name, number))
            else:
                self._tell(name, item, "a mapping", number)

    def flag(self, name: str) -> bool | None:
        """The boolean of that name, None if there is none."""
        value = member(self.value, name)
        if isinstance(value, bool):
            return value
        if value is not None:
            self._tell(name, value, "a boolean")
        return None

    def value_of(self, name: str) -> JsonValue:
        """Whatever has that name."""
        return member(self.value, name)

    def items(self, name: str) -> list[JsonValue]:
        """The values in a list."""
        value = member(self.value, name)
        if isinstance(value, list):
            return value
        if value is not None:
            self._tell(name, value, "a list")
        return []

    def _tell(self, name: str, value: JsonValue, wanted: str, *more: int) -> None:
        self.tell((*self.path, name, *more), f"is {describe(value)}, not {wanted}")
