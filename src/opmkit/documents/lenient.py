"""Access to decoded documents that treats a value of the wrong type as empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.documents.fields import FieldPath


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is a mapping, otherwise an empty mapping."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return the value if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """Return the value if it is a string, otherwise an empty string."""
    return value if isinstance(value, str) else ""


def scalar_text(value: object) -> str | None:
    """Return a scalar as a string, as Kubernetes tools convert it: "" for null, None for a list or mapping."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def members(value: object, base: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """Yield the mappings in a list with their paths; ``base`` is the path of the list."""
    for number, item in enumerate(items(value)):
        if isinstance(item, dict):
            yield (*base, number), item
