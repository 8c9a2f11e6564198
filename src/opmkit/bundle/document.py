"""The first document of a file, read as Kubernetes tools read a manifest: JSON if it begins with a brace, else YAML."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import orjson

from opmkit.bundle.errors import InvalidDocument
from opmkit.bundle.json_value import without_halves

if TYPE_CHECKING:
    from opmkit.bundle.go_yaml import Duplicate
    from opmkit.bundle.json_value import JsonValue

MAX_BYTES = 16 * 1024 * 1024
"""Size that a file may have; a cluster takes objects of 1.5 MiB at most."""

_SNIFFED = 30
"""Bytes at the start of a file among which the brace must be for the file to count as JSON."""
_SEPARATOR = re.compile(rb"^---(.*)$", re.MULTILINE)
_CONTENT = re.compile(rb"^[ \t]*[^\s#]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Document:
    """The value of a document: ``is_json`` tells its syntax, ``more`` that other documents follow it in the file.

    ``duplicates`` are the keys that a mapping of a YAML document has twice.
    """

    value: JsonValue
    is_json: bool
    more: bool
    duplicates: tuple[Duplicate, ...] = ()


def read_document(content: bytes) -> Document:
    """Read the first document of a file.

    Raises:
        InvalidDocument: with the place, if it can't be read, or exceeds a bound.
    """
    if len(content) > MAX_BYTES:
        raise InvalidDocument(f"{len(content)} bytes are more than the {MAX_BYTES} that a file may have")
    if content[:_SNIFFED].lstrip().startswith(b"{"):
        value, end = _read_json(content)
        return Document(value, is_json=True, more=bool(content[end:].strip()))
    from opmkit.bundle import go_yaml  # a JSON file does without the YAML library

    end = _first_end(content)
    more = _CONTENT.search(content, content.find(b"\n", end)) if end < len(content) else None
    duplicates: list[Duplicate] = []
    value = go_yaml.load(content[:end], duplicates)
    return Document(value, is_json=False, more=more is not None, duplicates=tuple(duplicates))


def _first_end(content: bytes) -> int:
    """Find where the first YAML document ends: at the first separator that has anything before it."""
    if b"\n---" not in content and not content.startswith(b"---"):
        return len(content)
    for separator in _SEPARATOR.finditer(content):
        rest = separator.group(1).strip()
        if rest and not rest.startswith(b"#"):
            line = content.count(b"\n", 0, separator.start()) + 1
            raise InvalidDocument("nothing but a comment may follow the document separator ---", line=line, column=4)
        if separator.start() > 0:
            return separator.start()
    return len(content)


def _read_json(content: bytes) -> tuple[JsonValue, int]:
    """Read the first JSON value, and give where it ends."""
    try:
        return orjson.loads(content), len(content)
    except orjson.JSONDecodeError:
        pass
    try:
        text = content.decode()
        start = len(text) - len(text.lstrip())
        value, end = json.JSONDecoder(parse_constant=_no_constant).raw_decode(text, start)
        value = without_halves(value)
    except json.JSONDecodeError as error:
        raise InvalidDocument(error.msg, line=error.lineno, column=error.colno) from error
    except (ValueError, RecursionError) as error:
        raise InvalidDocument(f"no JSON: {error}") from error
    return value, len(text[:end].encode())


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
