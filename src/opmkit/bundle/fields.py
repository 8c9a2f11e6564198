"""Typed access to decoded JSON, by the rules of Go's decoder: null is the zero value, a wrong type is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidBundle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.json_value import JsonValue


def text(value: JsonValue, where: str) -> str:
    """Give a text, "" for null; ``where`` is the path of the value for the error's message."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong_type(value, where, "a string")
    return value


def mapping(value: JsonValue, where: str) -> Mapping[str, JsonValue]:
    """Give a mapping, an empty one for null."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong_type(value, where, "a mapping")
    return value


def items(value: JsonValue, where: str) -> list[JsonValue]:
    """Give a list, an empty one for null."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong_type(value, where, "a list")
    return value


def member(members: Mapping[str, JsonValue], name: str) -> JsonValue:
    """Give the member of that name; if there is none, the last whose name differs in case alone."""
    if name in members:
        return members[name]
    folded, length = name.lower(), len(name)
    alike = [key for key in members if len(key) == length and key.lower() == folded]
    return members[max(alike)] if alike else None


def describe(value: JsonValue) -> str:
    """Name the kind of a value: ``a number``."""
    if value is None:
        return "nothing"
    kind = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return kind.get(type(value), "a mapping")


def _wrong_type(value: JsonValue, where: str, wanted: str) -> InvalidBundle:
    hint = " (put it in quotes)" if wanted == "a string" and isinstance(value, int | float) else ""
    return InvalidBundle(f"{where} is {describe(value)}, not {wanted}", hint=f"Write {where} as {wanted}{hint}.")
