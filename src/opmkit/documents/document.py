"""Decode the first document of a manifest: JSON if it starts with a brace, otherwise YAML, as in Kubernetes tools."""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, NoReturn

import orjson
from msgspec import Struct

from opmkit.documents import MAX_BYTES, yaml_decoder
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.json_value import replace_lone_surrogates

if TYPE_CHECKING:
    from opmkit.documents.errors import DuplicateKey
    from opmkit.documents.json_value import JsonValue

MAX_CONSTRAINT_DEPTH = 32
"""Maximum nesting of constraints on dependencies, far above that of real ones."""

_SNIFFED_BYTES = 30
"""Length of the start of a file that must contain the brace of a JSON document."""
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SEPARATOR = re.compile(rb"^---(.*)$", re.MULTILINE)
_CONTENT = re.compile(rb"^[ \t]*[^\s#]", re.MULTILINE)


class FirstDocument(Struct, frozen=True):
    """The decoded first document of a file.

    Attributes:
        value: The decoded value.
        is_json: Whether the document is JSON, not YAML.
        has_more: Whether other documents follow in the file.
        duplicates: Keys that a mapping of a YAML document has more than once.
    """

    value: JsonValue
    is_json: bool
    has_more: bool
    duplicates: tuple[DuplicateKey, ...] = ()


def read_document(content: bytes) -> FirstDocument:
    """Decode the first document of a file.

    Raises:
        InvalidDocument: With line and column, for invalid syntax and exceeded limits.
    """
    if len(content) > MAX_BYTES:
        raise InvalidDocument(f"{len(content)} bytes exceed the limit of {MAX_BYTES} bytes per file")
    if content[:_SNIFFED_BYTES].lstrip().startswith(b"{"):
        value, end = _decode_json(content)
        return FirstDocument(value, is_json=True, has_more=bool(content[end:].strip()))
    end = _first_document_end(content)
    more = _CONTENT.search(content, content.find(b"\n", end)) if end < len(content) else None
    duplicates: list[DuplicateKey] = []
    text = content[:end]
    if not text.startswith(_UTF_16):
        text = yaml_decoder.as_go_lines(text)
    value = yaml_decoder.load(text, duplicates)
    return FirstDocument(value, is_json=False, has_more=more is not None, duplicates=tuple(duplicates))


def _first_document_end(content: bytes) -> int:
    """Return the offset of the first YAML separator that is not at the start."""
    if b"\n---" not in content and not content.startswith(b"---"):
        return len(content)
    for separator in _SEPARATOR.finditer(content):
        rest = separator.group(1).strip()
        if rest and not rest.startswith(b"#"):
            line = content.count(b"\n", 0, separator.start()) + 1
            raise InvalidDocument("only a comment can follow the document separator ---", line=line, column=4)
        if separator.start() > 0:
            return separator.start()
    return len(content)


def _decode_json(content: bytes) -> tuple[JsonValue, int]:
    """Decode the first JSON value, and return it with the offset of its end."""
    try:
        return orjson.loads(content), len(content)
    except orjson.JSONDecodeError:
        pass  # there may be more documents, or escapes of lone surrogates, which Go accepts
    try:
        text = content.decode()
        start = len(text) - len(text.lstrip())
        value, end = json.JSONDecoder(parse_constant=_reject_constant).raw_decode(text, start)
        value = replace_lone_surrogates(value)
    except json.JSONDecodeError as error:
        raise InvalidDocument(error.msg, line=error.lineno, column=error.colno) from error
    except (ValueError, RecursionError) as error:
        raise InvalidDocument(f"invalid JSON: {error}") from error
    return value, len(text[:end].encode())


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
