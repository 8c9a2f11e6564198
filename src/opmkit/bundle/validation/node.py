"""Values of a document with their paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding
from opmkit.documents import fields
from opmkit.documents.fields import format_path
from opmkit.documents.lenient import items, mapping, scalar_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue


@dataclass(frozen=True, slots=True)
class ValueNode:
    """A value of any type, None if absent, and its ``path`` in the document.

    ``field`` is the path in the notation of Kubernetes. The API server can store the value in another field.
    """

    value: JsonValue
    path: FieldPath = ()
    field: str = ""

    def child(self, name: str, field: str = "") -> ValueNode:
        """Return the member with this name, ignoring case if there is none; ``field`` is its name in the API server."""
        field = field or name
        value = fields.member(mapping(self.value), name)
        return ValueNode(value, (*self.path, name), f"{self.field}.{field}" if self.field else field)

    def children(self) -> Iterator[ValueNode]:
        """Yield the items of a list."""
        for number, item in enumerate(items(self.value)):
            yield ValueNode(item, (*self.path, number), f"{self.field}[{number}]")

    def at(self, *steps: str | int) -> ValueNode:
        """Return the value at a path of names and indexes."""
        node = self
        for step in steps:
            node = node.child(step) if isinstance(step, str) else node._item(step)
        return node

    def _item(self, number: int) -> ValueNode:
        item = items(self.value)[number : number + 1]
        return ValueNode(item[0] if item else None, (*self.path, number), f"{self.field}[{number}]")

    @property
    def present(self) -> bool:
        """Whether the value is neither absent nor null."""
        return self.value is not None

    @property
    def text(self) -> str:
        """The value as a string, or "" if it is not a scalar."""
        return scalar_text(self.value) or ""

    @property
    def texts(self) -> list[str]:
        """The items of a list as strings."""
        return [node.text for node in self.children()]

    @property
    def where(self) -> str:
        """The path as text, such as ``spec.versions[0].name``."""
        return format_path(self.path)

    def finding(self, problem: str, *, subject: str = "") -> Finding:
        """Return a finding about this value; by default, the subject is the value if it is a string, or the field."""
        value = self.value if isinstance(self.value, str) else ""
        return Finding(f"{self.where} {problem}", path=self.path, subject=subject or value or self.field)

    def name_findings(self, problems: list[str]) -> Iterator[Finding]:
        """Yield one finding if there are problems with this name."""
        if problems:
            yield self.finding(f"is {self.text!r}: {', and '.join(problems)}")
