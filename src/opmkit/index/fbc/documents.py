"""The documents in a file of a catalog: a stream of JSON values, or of YAML documents."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.bundle.errors import InvalidDocument
from opmkit.bundle.go_yaml import DuplicateKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.json_value import JsonValue

_SEPARATOR, _NEWLINE = b"---", ord("\n")
_END = b"\n}"
_BETWEEN = re.compile(re.escape(_END) + rb"[ \t\r]*\n\s*(?=\{)")
_BLANKS = re.compile(r"\s*")
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Document:
    """A document and the ``line``, from 1, that it begins at; of YAML, the mappings have their keys in order.

    ``duplicates`` are the keys that a mapping has twice, of which the last counts; in JSON they have no place. Its
    text is that from ``start`` to ``end``, in bytes behind a byte order mark: with the ``---`` before it, and all up
    to the next document.
    """

    line: int
    value: JsonValue
    duplicates: tuple[DuplicateKey, ...] = ()
    start: int = 0
    end: int = 0


def read_documents(raw: bytes, *, empty: bool = False) -> Iterator[Document | InvalidDocument]:
    """Read all documents; one that can't be read is told as the error, with its line in the file.

    Those without content are passed over, or given too if ``empty``. Whether nothing but two ``---`` is one, is told
    as the reference reads them: it takes the second to begin a document where the first has ended one.
    """
    raw = raw.removeprefix(BOM)
    if is_json(raw):
        yield from _json_documents(raw)
    else:
        yield from _yaml_documents(raw, empty=empty)


def is_json(raw: bytes) -> bool:
    """Whether a file that begins so is read as JSON."""
    return raw.removeprefix(BOM).lstrip()[:1] == b"{"


def _json_documents(raw: bytes) -> Iterator[Document | InvalidDocument]:
    documents = _split_json(raw)
    yield from _streamed_json(raw) if documents is None else documents


def _split_json(raw: bytes) -> list[Document] | None:
    """The documents where each ends with a brace at the start of a line, as writers end them; None where that fails."""
    documents, start, line = [], 0, 1
    ends = ((match.start() + len(_END), match.end()) for match in _BETWEEN.finditer(raw))
    for end, begin in [*ends, (len(raw), len(raw))]:
        piece = raw[start:end]
        try:
            value = orjson.loads(piece)
        except orjson.JSONDecodeError:
            return None
        documents.append(Document(line + _blank_lines(piece), value, _duplicates(piece, value), start, begin))
        line += raw.count(b"\n", start, begin)
        start = begin
    return documents


def _streamed_json(raw: bytes) -> Iterator[Document | InvalidDocument]:
    """The documents one after the other, wherever they end."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        yield InvalidDocument("it is no UTF-8", line=raw.count(b"\n", 0, error.start) + 1)
        return
    seen: list[DuplicateKey] = []
    decoder = json.JSONDecoder(object_pairs_hook=lambda pairs: _mapping(pairs, seen), parse_constant=_no_constant)
    position, counted, line, start = _blanks(text, 0), 0, 1, 0
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            yield InvalidDocument(error.msg, line=error.lineno, column=error.colno)
            return
        except (ValueError, RecursionError) as error:
            yield InvalidDocument(f"no JSON: {error}", line=line)
            return
        position = _blanks(text, position)
        end = start + len(text[counted if start else 0 : position].encode())
        yield Document(line, value, tuple(seen), start, end)
        seen.clear()
        start = end


def _blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match else position


def _blank_lines(piece: bytes) -> int:
    return piece[: len(piece) - len(piece.lstrip())].count(b"\n")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _duplicates(piece: bytes, value: object) -> tuple[DuplicateKey, ...]:
    """The keys that are in it more than once in a mapping, which is looked into only if there are more than it has."""
    if piece.count(b'":') + piece.count(b'" :') <= _keys(value):
        return ()
    seen: list[DuplicateKey] = []
    json.loads(piece, object_pairs_hook=lambda pairs: _mapping(pairs, seen))
    return tuple(seen)


def _keys(value: object) -> int:
    """How many keys there are in all mappings of a value."""
    count, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            count += len(one)
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return count


def _mapping(pairs: list[tuple[str, Any]], seen: list[DuplicateKey]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        seen.extend(DuplicateKey(key, 0, 0) for key, count in counts.items() if count > 1)
    return members


def _yaml_documents(raw: bytes, *, empty: bool) -> Iterator[Document | InvalidDocument]:
    from opmkit.bundle import go_yaml  # a catalog in JSON does without the YAML library

    start, line, begun, separator = 0, 1, False, 0
    for end, begin in [*_separators(raw), (len(raw), len(raw))]:
        piece = raw[start:end]
        behind = raw[end:begin].removeprefix(_SEPARATOR).strip()
        if behind and not behind.startswith(b"#"):  # it would be passed over
            told = f"there is {behind.decode(errors='replace')[:60]!r} on the line of ---"
            yield InvalidDocument(f"{told}, where only a comment may be", line=line + piece.count(b"\n"))
        begun = begun or piece not in (b"", b"\n")
        duplicates: list[DuplicateKey] = []
        try:
            value = sort_keys(go_yaml.load(piece, duplicates)) if piece.strip() else None
        except InvalidDocument as error:
            yield InvalidDocument(error.problem, line=line + max(error.line - 1, 0), column=error.column)
        else:
            if value is not None or (empty and begun):
                shifted = tuple(DuplicateKey(key, line + at - 1, column) for key, at, column in duplicates)
                first = line if value is None else line + _first_line(piece)
                yield Document(first, value, shifted, separator, end)
        line += raw.count(b"\n", start, begin)
        start, begun, separator = begin, not begun, end


def _separators(raw: bytes) -> Iterator[tuple[int, int]]:
    """The lines that part documents, by their starts and ends; a pattern would take far longer to find them."""
    start = raw.find(_SEPARATOR)
    while start >= 0:
        end = start + 1
        if start == 0 or raw[start - 1] == _NEWLINE:
            end = raw.find(b"\n", start) % (len(raw) + 1)  # the end of the text where there is none
            yield start, end
        start = raw.find(_SEPARATOR, end)


_NO_CONTENT = re.compile(rb"(?:[ \t\r]*(?:#[^\n]*)?\n)*")


def _first_line(piece: bytes) -> int:
    """How many lines without content come first."""
    match = _NO_CONTENT.match(piece)
    return match.group().count(b"\n") if match else 0


def leading_lines(text: bytes) -> bytes:
    """The lines of a YAML document before its content: the ``---``, if it is in the text, and comments."""
    start = text.find(b"\n") + 1 if text.startswith(_SEPARATOR) else 0
    match = _NO_CONTENT.match(text, start)
    return text[: match.end()] if match else text[:start]


def sort_keys(value: JsonValue) -> JsonValue:
    """The value with the keys of all mappings in order, for so the reference turns YAML into JSON."""
    if isinstance(value, dict):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sort_keys(item) for item in value]
    return value
