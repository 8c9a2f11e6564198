"""Strict access to decoded JSON and paths in it: null is the zero value, other types are errors, as in Go."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from opmkit.documents.errors import FieldTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opmkit.documents.json_value import JsonValue


def text(value: JsonValue, where: str) -> str:
    """Return a string, or "" for null; ``where`` is its path, for the error message.

    Raises:
        FieldTypeError: The value is not a string.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong_type(value, where, "a string")
    return value


def mapping(value: JsonValue, where: str) -> Mapping[str, JsonValue]:
    """Return a mapping, an empty one for null.

    Raises:
        FieldTypeError: The value is not a mapping.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong_type(value, where, "a mapping")
    return value


def items(value: JsonValue, where: str) -> list[JsonValue]:
    """Return a list, an empty one for null.

    Raises:
        FieldTypeError: The value is not a list.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong_type(value, where, "a list")
    return value


def member(members: Mapping[str, JsonValue], name: str) -> JsonValue:
    """Return the member with this name, otherwise the last whose name differs only in case, otherwise None."""
    if name in members:
        return members[name]
    return members.get(written_key(members, name))


def written_key(members: Mapping[str, JsonValue], name: str) -> str:
    """Return the key of a member as it is written, see `member`; ``name`` if the member does not exist."""
    if name in members:
        return name
    folded, length = name.lower(), len(name)
    alike = [key for key in members if len(key) == length and key.lower() == folded]
    return max(alike, default=name)


def describe(value: JsonValue) -> str:
    """Return the type of a value for a message, such as ``a number``."""
    if value is None:
        return "null"
    kind = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return kind.get(type(value), "a mapping")


def _wrong_type(value: JsonValue, where: str, wanted: str) -> FieldTypeError:
    quotes = " (put it in quotes)" if wanted == "a string" and isinstance(value, int | float) else ""
    return FieldTypeError(f"{where} is {describe(value)}, not {wanted}", hint=f"write {where} as {wanted}{quotes}")


FieldPath: TypeAlias = tuple[str | int, ...]
"""Keys and indexes that lead from the root of a document to a value."""


def format_path(path: Iterable[str | int]) -> str:
    """Return a path in the notation of Kubernetes.

    >>> format_path(("spec", "links", 0, "url"))
    'spec.links[0].url'
    """
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
