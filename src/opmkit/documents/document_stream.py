"""The documents of a file: a stream of JSON values or of YAML documents."""

from __future__ import annotations

import json
import re
from collections import Counter
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson
from msgspec import Struct

from opmkit.documents import MAX_BYTES, yaml_decoder
from opmkit.documents.errors import DuplicateKey, InvalidDocument
from opmkit.documents.json_value import replace_lone_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.documents.json_value import JsonValue

BOM = b"\xef\xbb\xbf"
_SEPARATOR, _NEWLINE = b"---", ord("\n")
_END = b"\n}"
_JSON_BOUNDARY = re.compile(re.escape(_END) + rb"[ \t\r]*\n\s*(?=\{)")
_CHUNK_SIZE = 1 << 20
"""Bytes of a JSON file to read at once."""
_MAX_BLANKS = 4096
"""Bytes between two documents of a chunk; with more of them, the slow parser is used."""
_SNIFFED_BYTES = 4096
"""Length of the start of a file that must contain the brace of a JSON document."""
_GO_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""Characters before that brace, which a JSON document may begin with, but cannot contain all of."""
_WHITESPACE = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape of a surrogate, which may be one without its pair."""
_KEY_END = re.compile(rb'" ?:')
_BLANK_LINES = re.compile(rb"(?:[ \t\r]*(?:#[^\n]*)?\n)*")


class Document(Struct, frozen=True):
    """A document of a file.

    Attributes:
        line: The first line of the content, counted from 1.
        value: The content; mappings of YAML documents have sorted keys.
        duplicates: Keys that a mapping repeats; the last value wins. In JSON their lines are 0.
        start: Offset of the document in the file after the byte order mark, including the ``---`` before it.
        end: Offset of the next document.
    """

    line: int
    value: JsonValue
    duplicates: tuple[DuplicateKey, ...] = ()
    start: int = 0
    end: int = 0


def read_documents(raw: bytes, *, include_empty: bool = False) -> Iterator[Document | InvalidDocument]:
    """Yield all documents; for one that can't be parsed, yield the error, with its line in the file.

    Args:
        raw: The content of the file.
        include_empty: Whether to yield YAML documents without content. Which ``---`` delimit such a document follows
            Go opm, where a second ``---`` starts a document if the first one ended another.
    """
    raw = raw.removeprefix(BOM)
    if is_json(raw):
        yield from _json_documents(raw, BytesIO())
    else:
        yield from _yaml_documents(raw, include_empty=include_empty)


def read_settings(raw: bytes) -> JsonValue:
    """Decode a file of settings: one document in YAML or JSON, whose keys are unique.

    Unlike in manifests, which are read as in Kubernetes, nothing in the file is without effect.

    Raises:
        InvalidDocument: The file is invalid or too large, or has duplicate keys or a second document.
    """
    from opmkit.documents import go_yaml  # slow to import: PyYAML

    if len(raw) > MAX_BYTES:
        raise InvalidDocument(f"{len(raw)} bytes exceed the limit of {MAX_BYTES} bytes per file")
    duplicates: list[DuplicateKey] = []
    try:
        value = go_yaml.load(raw, duplicates, only=True)
    except InvalidDocument:
        found = list(read_documents(raw)) if is_json(raw) else []  # libyaml rejects escaped surrogate pairs
        if len(found) != 1 or isinstance(found[0], InvalidDocument):
            raise
        value, duplicates = found[0].value, list(found[0].duplicates)
    for key, line, column in duplicates:
        raise InvalidDocument(f"duplicate key {key!r}", line=line, column=column)
    return value


def is_json(raw: bytes) -> bool:
    """Return whether a file with this beginning is read as JSON."""
    head = raw.removeprefix(BOM)[:_SNIFFED_BYTES]
    return head[:1] == b"{" or head.decode(errors="replace").lstrip(_GO_SPACES)[:1] == "{"


def read_document_file(file: BinaryIO, *, include_empty: bool = False) -> Iterator[Document | InvalidDocument]:
    """Yield all documents of a file like `read_documents`, without storing a JSON file of many documents as a whole."""
    head = file.read(_CHUNK_SIZE)
    if is_json(head):
        yield from _json_documents(head.removeprefix(BOM), file)
    else:
        yield from read_documents(head + file.read(), include_empty=include_empty)


def _json_documents(buffer: bytes, file: BinaryIO) -> Iterator[Document | InvalidDocument]:
    """Yield the documents in ``buffer`` and the rest of ``file``.

    The fast parser is used while each document ends with a brace at the start of a line.
    """
    offset, line, searched, size = 0, 1, 0, _CHUNK_SIZE
    while True:
        start = 0
        chunk = file.read(size)
        boundaries = ((match.start() + len(_END), match.end()) for match in _JSON_BOUNDARY.finditer(buffer, searched))
        for end, next_start in chain(boundaries, () if chunk else [(len(buffer), len(buffer))]):
            text = buffer[start:end]
            try:
                value = orjson.loads(text)
            except orjson.JSONDecodeError:
                yield from _decode_json_stream(buffer[start:] + chunk + file.read(), offset + start, line)
                return
            first_line = line + text[: len(text) - len(text.lstrip())].count(b"\n")
            yield Document(first_line, value, _find_duplicates(text, value), offset + start, offset + next_start)
            line += buffer.count(b"\n", start, next_start)
            start = next_start
        if not chunk:
            return
        offset += start
        searched = max(len(buffer) - start - _MAX_BLANKS, 0)
        size = max(len(buffer) - start, _CHUNK_SIZE)  # a large document is not copied for each chunk
        buffer = buffer[start:] + chunk


def _decode_json_stream(raw: bytes, start: int, line: int) -> Iterator[Document | InvalidDocument]:
    """Yield concatenated documents with any whitespace between them.

    Kubernetes tools read what follows the first document, or the whole file, as YAML if it is not JSON. Here it is an
    error, because it is more likely to be a mistake.

    Args:
        raw: The rest of the file.
        start: Its offset in the file.
        line: Its first line.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        yield InvalidDocument("not valid UTF-8", line=line + raw.count(b"\n", 0, error.start))
        return
    duplicates: list[DuplicateKey] = []
    decoder = json.JSONDecoder(
        object_pairs_hook=lambda pairs: _to_mapping(pairs, duplicates), parse_constant=_reject_constant
    )
    first_line, position, counted, previous = line, _skip_whitespace(text, 0), 0, 0
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        try:
            value, position = decoder.raw_decode(text, position)
            if _SURROGATE.search(text, counted, position):
                value = replace_lone_surrogates(value)
        except json.JSONDecodeError as error:
            yield InvalidDocument(error.msg, line=first_line + error.lineno - 1, column=error.colno)
            return
        except (ValueError, RecursionError) as error:
            yield InvalidDocument(str(error), line=line)
            return
        position = _skip_whitespace(text, position)
        end = start + len(text[previous:position].encode())
        yield Document(line, value, tuple(duplicates), start, end)
        duplicates.clear()
        start, previous = end, position


def _skip_whitespace(text: str, position: int) -> int:
    match = _WHITESPACE.match(text, position)
    return match.end() if match else position


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _find_duplicates(text: bytes, value: object) -> tuple[DuplicateKey, ...]:
    """Return the repeated keys; the text is parsed again only if it seems to have more keys than the value."""
    if len(_KEY_END.findall(text)) <= _count_keys(value):  # much faster than to count strings of two characters
        return ()
    duplicates: list[DuplicateKey] = []
    json.loads(text, object_pairs_hook=lambda pairs: _to_mapping(pairs, duplicates))
    return tuple(duplicates)


def _count_keys(value: object) -> int:
    """Count the keys of all mappings in a value."""
    count, pending = 0, [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            count += len(item)
            pending += item.values()
        elif isinstance(item, list):
            pending += item
    return count


def _to_mapping(pairs: list[tuple[str, Any]], duplicates: list[DuplicateKey]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        duplicates.extend(DuplicateKey(key, 0, 0) for key, count in counts.items() if count > 1)
    return mapping


def _yaml_documents(raw: bytes, *, include_empty: bool) -> Iterator[Document | InvalidDocument]:
    start, line, in_document, separator = 0, 1, False, 0
    for end, next_start in [*_separators(raw), (len(raw), len(raw))]:
        text = raw[start:end]
        after_separator = raw[end:next_start].removeprefix(_SEPARATOR).strip()
        if after_separator and not after_separator.startswith(b"#"):  # it would be ignored
            problem = f"unexpected {after_separator.decode(errors='replace')[:60]!r} after ---"
            yield InvalidDocument(f"{problem}: only a comment is allowed there", line=line + text.count(b"\n"))
        prefix = raw[separator:start] if in_document else b""  # a document can end in that line
        in_document = in_document or text not in (b"", b"\n")
        duplicates: list[DuplicateKey] = []
        try:
            value = (
                sort_keys(yaml_decoder.load(yaml_decoder.as_go_lines(prefix + text), duplicates))
                if text.strip()
                else None
            )
        except InvalidDocument as error:
            yield InvalidDocument(error.problem, line=line + max(error.line - 1, 0), column=error.column)
        else:
            if value is not None or (include_empty and in_document):
                shifted = tuple(DuplicateKey(key, line + at - 1, column) for key, at, column in duplicates)
                first_line = line if value is None else line + _count_blank_lines(text)
                yield Document(first_line, value, shifted, separator, end)
        line += raw.count(b"\n", start, next_start)
        start, in_document, separator = next_start, not in_document, end


def _separators(raw: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end offsets of separator lines; this is much faster than a regular expression."""
    start = raw.find(_SEPARATOR)
    while start >= 0:
        end = start + 1
        if start == 0 or raw[start - 1] == _NEWLINE:
            end = raw.find(b"\n", start) % (len(raw) + 1)  # find returns -1 for the last line: take the end of the text
            yield start, end
        start = raw.find(_SEPARATOR, end)


def _count_blank_lines(text: bytes) -> int:
    """Count the lines before the content: blank ones and comments."""
    match = _BLANK_LINES.match(text)
    return match.group().count(b"\n") if match else 0


def leading_lines(text: bytes) -> bytes:
    """Return the lines of a YAML document before its content: the ``---``, if it is in the text, and comments."""
    start = text.find(b"\n") + 1 if text.startswith(_SEPARATOR) else 0
    match = _BLANK_LINES.match(text, start)
    return text[: match.end()] if match else text[:start]


def is_nested_deeper(value: JsonValue, levels: int) -> bool:
    """Return whether a value has more than that many levels of collections; it may have any number of them."""
    level: list[JsonValue] = [value]
    for _ in range(levels + 1):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def sort_keys(value: JsonValue) -> JsonValue:
    """Return the value with the keys of all mappings sorted, as Go opm converts YAML to JSON."""
    if isinstance(value, dict):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sort_keys(item) for item in value]
    return value
