"""Errors of documents."""

from __future__ import annotations

from typing import NamedTuple

from opmkit.core.errors import OpmkitError


class DocumentError(OpmkitError):
    """Base class of errors about documents."""


class FieldTypeError(DocumentError):
    """A value has another type than its field."""


class InvalidDocument(DocumentError):
    """A document is invalid YAML or JSON, or not a Kubernetes object.

    Attributes:
        problem: The message, without the location.
        line: Line from 1, or 0 if unknown.
        column: Column from 1, or 0 if unknown.
    """

    def __init__(self, problem: str, *, line: int = 0, column: int = 0) -> None:
        """Create an error; `located` adds the file."""
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column

    def located(self, file: str) -> str:
        """Return the message with its location, as compilers write it: ``file:line:column: problem``."""
        location = "".join(f":{number}" for number in (self.line, self.column) if number)
        return f"{file}{location}: {self.problem}"


class DuplicateKey(NamedTuple):
    """A key that is in its mapping before; line and column of the later one, from 1."""

    key: str
    line: int
    column: int


class UneditableText(DocumentError):
    """A value that cannot be edited in the text of its document."""
