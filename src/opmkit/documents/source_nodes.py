"""Node graphs of YAML and JSON documents, which know where each value is in the text."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import yaml

from opmkit.documents.errors import InvalidDocument

if TYPE_CHECKING:
    from opmkit.documents.fields import FieldPath


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
