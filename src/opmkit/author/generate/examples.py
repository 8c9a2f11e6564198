"""The annotation ``alm-examples``: custom resources as JSON, formatted as Go programs do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from opmkit.documents.json_value import encode, escape_html, go_float

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.documents.json_value import JsonValue


def to_json(value: JsonValue) -> str:
    """Return indented JSON with sorted keys and with ``<``, ``>`` and ``&`` escaped.

    Raises:
        ValueError: for infinite numbers and NaN.
    """
    return escape_html("".join(_tokens(value, "\n")).encode()).decode()


def _tokens(value: JsonValue, line_break: str) -> Iterator[str]:
    inner = line_break + "  "
    if isinstance(value, dict) and value:
        yield "{"
        for number, key in enumerate(sorted(value)):
            yield f"{',' if number else ''}{inner}{orjson.dumps(key).decode()}: "
            yield from _tokens(value[key], inner)
        yield line_break + "}"
    elif isinstance(value, list) and value:
        yield "["
        for number, item in enumerate(value):
            yield f"{',' if number else ''}{inner}"
            yield from _tokens(item, inner)
        yield line_break + "]"
    elif isinstance(value, float):
        yield go_float(value)
    else:
        yield encode(value).decode()
