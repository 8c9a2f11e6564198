"""The manifests of a bundle, as the column of an index database holds them: JSON documents one after the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.json_value import JsonValue

_BLANKS = b" \t\r\n"


def cut_manifests(documents: bytes) -> list[tuple[str, JsonValue]]:
    """Each document as text and as a value. Those who write indexes put every document on a line of its own.

    Raises:
        ValueError: for what is no JSON.
        RecursionError: for JSON that is nested too deep.
    """
    lines = [line for line in (line.strip(_BLANKS) for line in documents.split(b"\n")) if line]
    try:
        return [(_text(line), orjson.loads(line)) for line in lines]
    except orjson.JSONDecodeError:
        return list(_decoded(_text(documents)))


def _decoded(documents: str) -> Iterator[tuple[str, JsonValue]]:
    decode, blanks = json.JSONDecoder().raw_decode, _BLANKS.decode()
    rest = documents.strip(blanks)
    while rest:
        value, end = decode(rest)
        yield rest[:end], value
        rest = rest[end:].lstrip(blanks)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
