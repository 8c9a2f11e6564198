"""JSON schemas of custom resources: the schemas within a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.lenient import mapping
from opmkit.bundle.validation.node import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

JUNCTORS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "items", "additionalProperties", "additionalItems")
_NAMED = ("properties", "patternProperties", "definitions", "dependencies")


def named(schema: Node, keyword: str) -> Iterator[tuple[str, Node]]:
    """The schemas that a keyword such as ``properties`` names."""
    holder = schema.child(keyword)
    for name, value in mapping(holder.value).items():
        yield name, Node(value, (*holder.path, name), f"{holder.field}[{name}]")


def within(schema: Node) -> Iterator[Node]:
    """The schemas directly within a schema, by whichever keyword."""
    for keyword in _SINGLE:
        yield schema.child(keyword)
    for keyword in (*JUNCTORS, "items"):
        yield from schema.child(keyword).children()
    for keyword in _NAMED:
        for _, each in named(schema, keyword):
            yield each


def has_default(schema: Node) -> bool:
    """Whether the schema, or one within it, gives a default."""
    waiting, seen = [schema], set()
    while waiting:
        node = waiting.pop()
        if isinstance(node.value, dict) and id(node.value) not in seen:  # aliases may repeat a schema without end
            seen.add(id(node.value))
            if node.child("default").present:
                return True
            waiting += within(node)
    return False
