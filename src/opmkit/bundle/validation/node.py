"""Values of documents, each with the way that leads to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle import fields
from opmkit.bundle.field_path import format_path
from opmkit.bundle.finding import Finding
from opmkit.bundle.lenient import items, mapping, scalar_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.json_value import JsonValue


@dataclass(frozen=True, slots=True)
class Node:
    """A value, which may be of any type, and its ``path`` in the document; what is absent has the value None.

    ``field`` is the path as Kubernetes writes it, of the form that its API server keeps, which may be another.
    """

    value: JsonValue
    path: FieldPath = ()
    field: str = ""

    def child(self, name: str, field: str = "") -> Node:
        """The member of that name, found without regard to case if there is none; ``field`` is its other name."""
        found = fields.member(mapping(self.value), name)
        told = field or name
        return Node(found, (*self.path, name), f"{self.field}.{told}" if self.field else told)

    def children(self) -> Iterator[Node]:
        """The items of a list."""
        for number, item in enumerate(items(self.value)):
            yield Node(item, (*self.path, number), f"{self.field}[{number}]")

    def at(self, *steps: str | int) -> Node:
        """What a way through mappings and lists leads to."""
        node = self
        for step in steps:
            node = node.child(step) if isinstance(step, str) else node._item(step)
        return node

    def _item(self, number: int) -> Node:
        found = items(self.value)[number : number + 1]
        return Node(found[0] if found else None, (*self.path, number), f"{self.field}[{number}]")

    @property
    def present(self) -> bool:
        """Whether there is a value other than null."""
        return self.value is not None

    @property
    def text(self) -> str:
        """The value where it is a scalar, as a text; else ""."""
        return scalar_text(self.value) or ""

    @property
    def texts(self) -> list[str]:
        """The texts in a list."""
        return [node.text for node in self.children()]

    @property
    def where(self) -> str:
        """The path as people write it: ``spec.versions[0].name``."""
        return format_path(self.path)

    def finding(self, problem: str, *, subject: str = "") -> Finding:
        """A fault of this value, ``problem`` being what to say of it; its subject is the value if that is a text, else
        the field.
        """
        told = self.value if isinstance(self.value, str) else ""
        return Finding(f"{self.where} {problem}", path=self.path, subject=subject or told or self.field)

    def misspelt(self, problems: list[str]) -> Iterator[Finding]:
        """The fault of this text if there are problems with its spelling."""
        if problems:
            yield self.finding(f"is {self.text!r}: {', and '.join(problems)}")
