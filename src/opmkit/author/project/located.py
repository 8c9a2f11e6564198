"""Typed access to the values of a YAML file; errors contain the file, the line and the path of the value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidProject
from opmkit.core.files import disk_errors
from opmkit.documents.content import Content
from opmkit.documents.document import MAX_BYTES
from opmkit.documents.field_path import format_path
from opmkit.documents.fields import describe

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.documents.field_path import FieldPath
    from opmkit.documents.json_value import JsonValue


@dataclass(frozen=True)
class LocatedValue:
    """A value of a file, and its path from the root of the document."""

    file: Path
    content: Content
    value: JsonValue
    path: FieldPath = ()

    @classmethod
    def read(cls, file: Path) -> LocatedValue:
        """Decode the first document of a file.

        Raises:
            InvalidProject: if the file is not valid YAML.
            DiskError: if the file cannot be read.
        """
        with disk_errors(file), file.open("rb") as stream:
            return cls.parse(file, stream.read(MAX_BYTES + 1))

    @classmethod
    def parse(cls, file: Path, raw: bytes) -> LocatedValue:
        """Decode the first document in the bytes of a file.

        Raises:
            InvalidProject: if the bytes are not valid YAML.
        """
        content = Content.read(raw)
        if content.error:
            raise InvalidProject(content.error.located(str(file)), hint="correct the YAML")
        return cls(file, content, content.value)

    def get(self, name: str) -> LocatedValue:
        """Return the member of a mapping; the value of a missing one is None.

        Raises:
            InvalidProject: if the value is neither a mapping nor null.
        """
        return LocatedValue(self.file, self.content, self.mapping().get(name), (*self.path, name))

    def items(self) -> list[LocatedValue]:
        """Return the items of a list, none for null.

        Raises:
            InvalidProject: if the value is neither a list nor null.
        """
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            raise self._mismatch("a list")
        return [LocatedValue(self.file, self.content, item, (*self.path, n)) for n, item in enumerate(self.value)]

    def mapping(self) -> dict[str, JsonValue]:
        """Return a mapping, an empty one for null.

        Raises:
            InvalidProject: if the value is neither a mapping nor null.
        """
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self._mismatch("a mapping")
        return self.value

    def text(self) -> str:
        """Return a string, "" for null.

        Raises:
            InvalidProject: if the value is neither a string nor null.
        """
        if self.value is None:
            return ""
        if not isinstance(self.value, str):
            raise self._mismatch("a string")
        return self.value

    def boolean(self) -> bool:
        """Return a boolean, False for null.

        Raises:
            InvalidProject: if the value is neither a boolean nor null.
        """
        if self.value is None:
            return False
        if not isinstance(self.value, bool):
            raise self._mismatch("a boolean")
        return self.value

    def error(self, problem: str, *, hint: str) -> InvalidProject:
        """Return the error for this value; ``problem`` is a predicate such as "is empty"."""
        line, column = self.content.locate(self.path)
        location = "".join(f":{number}" for number in (line, column) if number)
        subject = format_path(self.path) or "the document"
        return InvalidProject(f"{self.file}{location}: {subject} {problem}", hint=hint)

    def _mismatch(self, wanted: str) -> InvalidProject:
        quotes = " (put it in quotes)" if wanted == "a string" and isinstance(self.value, bool | int | float) else ""
        return self.error(f"is {describe(self.value)}, not {wanted}", hint=f"write {wanted}{quotes}")
