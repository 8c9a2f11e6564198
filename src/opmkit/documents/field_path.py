"""Paths to values within a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

FieldPath: TypeAlias = tuple[str | int, ...]
"""Keys and indexes that lead from the root of a document to a value."""


def format_path(path: Iterable[str | int]) -> str:
    """Return a path in the notation of Kubernetes.

    >>> format_path(("spec", "links", 0, "url"))
    'spec.links[0].url'
    """
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
