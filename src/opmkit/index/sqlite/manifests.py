"""The stored form of a bundle's manifests: concatenated JSON documents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.documents.json_value import JsonValue

_BLANKS = b" \t\r\n"


def split_manifests(documents: bytes) -> list[tuple[str, JsonValue]]:
    """Return each document as text and as a value. Indexes usually have one document per line.

    Raises:
        ValueError: the text is not JSON.
        RecursionError: the JSON is nested too deeply.
    """
    lines = [line for line in (line.strip(_BLANKS) for line in documents.split(b"\n")) if line]
    try:
        return [(_text(line), orjson.loads(line)) for line in lines]
    except orjson.JSONDecodeError:
        return list(_decode_all(_text(documents)))


def _decode_all(documents: str) -> Iterator[tuple[str, JsonValue]]:
    decode, blanks = json.JSONDecoder().raw_decode, _BLANKS.decode()
    rest = documents.strip(blanks)
    while rest:
        value, end = decode(rest)
        yield rest[:end], value
        rest = rest[end:].lstrip(blanks)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
