"""Locations of values in YAML documents in block style, found by indentation without parsing the document again."""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue


_UNSUPPORTED = (b"\r", b"\n---", b"\n...", "\x85".encode(), "\u2028".encode(), "\u2029".encode())
"""Line breaks other than LF, and ends of documents."""
_ANCHOR = re.compile(rb"&(?<=[\s\[{,:]&)(?=[0-9A-Za-z_-])")
_DOCUMENT_START = re.compile(rb"--- *(?: #[^\n]*)?(?=\n)")
_LINE_END = re.compile(rb": *(?: #[^\n]*)?(?=\n)")
_NEXT_LINE = re.compile(rb"\n( *)(?=[^ #\n])")
_ITEM = re.compile(rb"- +(?=[^ #*\n])")


class _Block(Struct, frozen=True):
    """The lines of a mapping or list: offset of the first member, indentation of all members, and end."""

    start: int
    indentation: int
    end: int


_Members: TypeAlias = "dict[str | int, tuple[int, int]]"
"""Offsets of the start and end of each member."""


class BlockLocator(Struct, frozen=True, dict=True):
    """Finds locations in a valid document, of which ``value`` is the decoded value."""

    raw: bytes
    value: JsonValue
    _cache: dict[_Block, _Members | None] = {}

    def locate(self, path: FieldPath) -> tuple[int, int] | None:
        """Return line and column, from 1, of the value at a path, or of its nearest existing parent.

        Returns:
            None if the document must be parsed to find them.
        """
        value, block = self.value, self._root
        if block is None or not self._members(value, block):
            return None
        start = block.start
        for step in path:
            if not isinstance(value, dict | list) or not value or (isinstance(value, list) and isinstance(step, str)):
                break
            members = self._members(value, block)
            if members is None:
                return None
            key = str(step) if isinstance(value, dict) else step
            if key not in members:
                break
            start, end = members[key]
            value = value[key]  # type: ignore[index]  # a key of a mapping or an index of a list
            if isinstance(key, str):
                block = self._block_below(start + len(key.encode()), end)
            elif item := _ITEM.match(self.raw, start, end):
                start = item.end()
                block = _Block(start, self._column(start), end)
            else:
                return None
        return self.raw.count(b"\n", 0, start) + 1, self._column(start) + 1

    @cached_property
    def _root(self) -> _Block | None:
        raw = self.raw
        if any(text in raw for text in _UNSUPPORTED) or _ANCHOR.search(raw) or raw[:1] > b"\x7f":
            return None
        if raw[:1] not in b" #\n-":
            return _Block(0, 0, len(raw))
        document_start = _DOCUMENT_START.match(raw)
        first = _NEXT_LINE.search(raw, document_start.end() if document_start else 0)
        if first is None or first[1] or (raw.startswith(b"-") and not document_start) or raw[:1] == b" ":
            return None
        return _Block(first.end(), 0, len(raw))

    def _block_below(self, key_end: int, end: int) -> _Block | None:
        """Return the lines below a key, None if its value is on the same line."""
        rest = _LINE_END.match(self.raw, key_end, end)
        first = _NEXT_LINE.search(self.raw, rest.end(), end) if rest else None
        return _Block(first.end(), len(first[1]), end) if first else None

    def _members(self, value: JsonValue, block: _Block | None) -> _Members | None:
        """Return the members of a mapping or list; None if they cannot be found."""
        if block is None:
            return None
        if block not in self._cache:
            self._cache[block] = self._find_members(value, block)
        return self._cache[block]

    def _find_members(self, value: JsonValue, block: _Block) -> _Members | None:
        lines = _lines(block.indentation, items=isinstance(value, list))
        starts = [block.start, *(match.end() for match in lines.finditer(self.raw, block.start, block.end))]
        if not isinstance(value, dict | list) or len(starts) != len(value):
            return None
        ends = [*starts[1:], block.end]
        if isinstance(value, list):
            is_list = all(self.raw[start : start + 2] in (b"- ", b"-\n") for start in starts)
            return dict(enumerate(zip(starts, ends, strict=True))) if is_list else None
        if not all(map(self._is_key, value, starts)):
            return None
        return dict(zip(value, zip(starts, ends, strict=True), strict=True))

    def _is_key(self, key: str, start: int) -> bool:
        """Return whether a key is at this offset, without quotes."""
        name = key.encode("utf-8", "surrogatepass") + b":"
        end = start + len(name)
        return self.raw[start:end] == name and self.raw[end : end + 1] in b" \n"

    def _column(self, offset: int) -> int:
        return offset - self.raw.rfind(b"\n", 0, offset) - 1


@cache
def _lines(indentation: int, *, items: bool) -> re.Pattern[bytes]:
    """Return a pattern for starts of lines with this indentation; those of mappings can have a list in between."""
    return re.compile(b"\n" + b" " * indentation + (rb"(?=[^ #\n])" if items else rb"(?=[^ #\n-])"))
