"""Iteration over the schemas nested in a JSON schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.validation.node import Node
from opmkit.documents.lenient import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

JUNCTORS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "items", "additionalProperties", "additionalItems")
_NAMED = ("properties", "patternProperties", "definitions", "dependencies")


def named_subschemas(schema: Node, keyword: str) -> Iterator[tuple[str, Node]]:
    """Yield name and schema of each member of a keyword such as ``properties``."""
    holder = schema.child(keyword)
    for name, value in mapping(holder.value).items():
        yield name, Node(value, (*holder.path, name), f"{holder.field}[{name}]")


def subschemas(schema: Node) -> Iterator[Node]:
    """Yield the schemas directly below a schema, for all keywords."""
    for keyword in _SINGLE:
        yield schema.child(keyword)
    for keyword in (*JUNCTORS, "items"):
        yield from schema.child(keyword).children()
    for keyword in _NAMED:
        for _, subschema in named_subschemas(schema, keyword):
            yield subschema


def has_default(schema: Node) -> bool:
    """Return True if the schema, or one nested in it, has a default."""
    pending, seen = [schema], set()
    while pending:
        node = pending.pop()
        if isinstance(node.value, dict) and id(node.value) not in seen:  # YAML aliases can make a schema recursive
            seen.add(id(node.value))
            if node.child("default").present:
                return True
            pending += subschemas(node)
    return False
