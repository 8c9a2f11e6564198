"""Node graphs of YAML and JSON documents, which know where each value is in the text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, TypeAlias, cast

import yaml

from opmkit.documents.errors import InvalidDocument

if TYPE_CHECKING:
    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue


_MERGE_KEY = "<<"
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_OTHER_SCALAR = re.compile(r"[^\s,\]}]+")
_MAX_DEPTH = 200


class NodeComposer(yaml.CBaseLoader):
    """Composes nodes without resolving their tags, which are not needed."""

    def resolve(self, _kind: type[yaml.Node], _value: object, _implicit: object) -> str:
        """Return an empty tag."""
        return ""

    def descend_resolver(self, _parent: object, _index: object) -> None:
        """Do nothing."""

    def ascend_resolver(self) -> None:
        """Do nothing."""


def compose_document(text: str, *, is_json: bool) -> yaml.Node:
    """Return the root node of a document that is known to be valid; indexes of marks are offsets in ``text``.

    Raises:
        InvalidDocument: The document is empty or nested too deeply, or defines an anchor twice.
    """
    root = _JsonComposer(text).compose() if is_json else _compose_yaml(text)
    if root is None:
        raise InvalidDocument("empty document")
    return root


def _compose_yaml(text: str) -> yaml.Node | None:
    loader = NodeComposer(text)
    try:
        return loader.get_node() if loader.check_node() else None
    except yaml.composer.ComposerError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise InvalidDocument("an anchor with this name already exists", line=line) from error
    finally:
        loader.dispose()


def find_node(root: yaml.Node, path: FieldPath) -> yaml.Node | None:
    """Return the node of the value at a path, through aliases and merge keys, or None if it does not exist."""
    node: yaml.Node | None = root
    for step in path:
        if isinstance(step, int):
            is_item = isinstance(node, yaml.SequenceNode) and step < len(node.value)
            node = node.value[step] if node is not None and is_item else None
        else:
            node = _member(node, step)
    return node


def nearest_node(root: yaml.Node, path: FieldPath) -> yaml.Node:
    """Return the node of the value at a path, or of its nearest existing parent."""
    for length in range(len(path), 0, -1):
        node = find_node(root, path[:length])
        if node is not None:
            return node
    return root


def _member(node: yaml.Node | None, key: str) -> yaml.Node | None:
    """Return the value of a key; of duplicates the last one counts."""
    if not isinstance(node, yaml.MappingNode):
        return None
    merged: list[yaml.Node] = []
    for key_node, value in reversed(node.value):
        if isinstance(key_node, yaml.ScalarNode) and key_node.value == key:
            return cast("yaml.Node", value)
        if isinstance(key_node, yaml.ScalarNode) and key_node.value == _MERGE_KEY:
            merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
    return next((found for source in merged if (found := _member(source, key)) is not None), None)


class _JsonComposer:
    """Composer of JSON; libyaml rejects some of it, such as escaped surrogate pairs."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def compose(self) -> yaml.Node:
        return self._value(0)

    def _value(self, depth: int) -> yaml.Node:
        if depth > _MAX_DEPTH:
            raise InvalidDocument(f"more than {_MAX_DEPTH} levels of nesting")
        start, character = self._position, self._peek()
        start = self._position
        if character == "{":
            members = []
            while self._next_item("}"):
                key = self._value(depth + 1)
                self._peek()
                self._position += 1  # the colon
                members.append((key, self._value(depth + 1)))
            return yaml.MappingNode("", members, _mark(start), _mark(self._position), flow_style=True)
        if character == "[":
            items = []
            while self._next_item("]"):
                items.append(self._value(depth + 1))
            return yaml.SequenceNode("", items, _mark(start), _mark(self._position), flow_style=True)
        match = (_STRING if character == '"' else _OTHER_SCALAR).match(self._text, start)
        if match is None:
            raise InvalidDocument("invalid JSON", line=self._text.count("\n", 0, start) + 1)
        self._position = match.end()
        value = json.loads(match[0]) if character == '"' else match[0]
        style = '"' if character == '"' else None
        return yaml.ScalarNode("", value, _mark(start), _mark(match.end()), style=style)

    def _next_item(self, end: str) -> bool:
        """Skip an opening bracket or a comma, and return whether an item follows; otherwise skip the ``end``."""
        if self._peek() != end:
            self._position += 1
        if self._peek() != end:
            return True
        self._position += 1
        return False

    def _peek(self) -> str:
        """Skip whitespace and return the next character, "" at the end."""
        match = _SPACE.match(self._text, self._position)
        self._position = match.end() if match else self._position
        return self._text[self._position : self._position + 1]


def _mark(index: int) -> yaml.Mark:
    return yaml.Mark("", index, 0, 0, None, 0)


def locate(raw: bytes, path: FieldPath) -> tuple[int, int]:
    """Return line and column, from 1, of the value at a path, or of its nearest existing parent; 0 if unknown."""
    node = _compose(raw)
    if node is None:
        return 0, 0
    mark = node.start_mark
    for step in path:
        key, child = _child(node, step)
        if child is None:
            break
        node, mark = child, (key or child).start_mark
    return mark.line + 1, mark.column + 1


@lru_cache(maxsize=4)
def _compose(raw: bytes) -> yaml.Node | None:
    """Return the node graph of the first document.

    It needs many times the memory of the text, so it is only built for findings, and few are cached.
    """
    loader = NodeComposer(raw)
    try:
        return loader.get_node() if loader.check_node() else None
    except (yaml.YAMLError, RecursionError):
        return None
    finally:
        loader.dispose()


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    """Return the key and value nodes of a member, or None and the node of an item."""
    if isinstance(node, yaml.MappingNode):
        for key, value in reversed(node.value):  # of duplicates, the last counts
            if isinstance(key, yaml.ScalarNode) and key.value == str(step):
                return key, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    return None, None


_UNSUPPORTED = (b"\r", b"\n---", b"\n...", "\x85".encode(), "\u2028".encode(), "\u2029".encode())
"""Line breaks other than LF, and ends of documents."""
_ANCHOR = re.compile(rb"&(?<=[\s\[{,:]&)(?=[0-9A-Za-z_-])")
_DOCUMENT_START = re.compile(rb"--- *(?: #[^\n]*)?(?=\n)")
_LINE_END = re.compile(rb": *(?: #[^\n]*)?(?=\n)")
_NEXT_LINE = re.compile(rb"\n( *)(?=[^ #\n])")
_ITEM = re.compile(rb"- +(?=[^ #*\n])")


@dataclass(frozen=True, slots=True)
class _Block:
    """The lines of a mapping or list: offset of the first member, indentation of all members, and end."""

    start: int
    indentation: int
    end: int


_Members: TypeAlias = "dict[str | int, tuple[int, int]]"
"""Offsets of the start and end of each member."""


@dataclass(frozen=True)
class BlockLocator:
    """Finds locations in a valid document, of which ``value`` is the decoded value."""

    raw: bytes
    value: JsonValue
    _cache: dict[_Block, _Members | None] = field(default_factory=dict)

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
