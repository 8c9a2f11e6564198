"""Edits of a YAML or JSON document that retain its comments, its order of keys and its formatting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import yaml

from opmkit.bundle.document_stream import leading_lines, read_documents
from opmkit.bundle.errors import InvalidDocument
from opmkit.bundle.source_nodes import compose_document, find_node, nearest_node
from opmkit.bundle.text_edits import TextEdit, UneditableText, apply_edits
from opmkit.bundle.text_insertion import (
    encode_document,
    fill_collection,
    insert_items,
    insert_member,
    remove_item,
    replace_scalar,
)
from opmkit.bundle.text_style import newline_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.bundle.document_stream import Document
    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.json_value import JsonValue

_ALIAS_HINT = "write it without anchors, aliases and merge keys"


@dataclass(frozen=True)
class SourceText:
    """A document as text and as value. Edits return a new one, whose value differs only in what was edited.

    Attributes:
        file: The name of its file, for messages.
        text: The text of the document up to the next one, with the ``---`` before it.
        value: The value.
        first_line: The line in the file where the text begins.
        is_json: Whether the document is JSON, not YAML.
    """

    file: str
    text: str
    value: JsonValue
    first_line: int = 1
    is_json: bool = False

    @classmethod
    def from_document(cls, file: str, body: bytes, document: Document, *, is_json: bool) -> SourceText:
        """Return the document of a file without byte order mark; raises UneditableText if it is not UTF-8."""
        raw = body[document.start : document.end]
        first_line = document.line - (0 if is_json else leading_lines(raw).count(b"\n"))
        try:
            return cls(file, raw.decode(), document.value, first_line, is_json)
        except UnicodeDecodeError as error:
            raise UneditableText(
                f"{file}:{document.line}: not valid UTF-8", hint="convert the file to UTF-8"
            ) from error

    @cached_property
    def root(self) -> yaml.Node:
        """The root of the node graph of the text."""
        try:
            return compose_document(self.text, is_json=self.is_json)
        except InvalidDocument as error:
            line = self.first_line + max(error.line - 1, 0)
            raise UneditableText(f"{self.file}:{line}: {error.problem}", hint="correct the file") from error

    def line(self, path: FieldPath) -> int:
        """Return the line in the file, from 1, of the value at a path, or of its nearest existing parent."""
        index = nearest_node(self.root, path).start_mark.index
        return self.first_line + self.text.count("\n", 0, index)

    def insert(self, path: FieldPath, index: int, item: JsonValue) -> SourceText:
        """Insert an item into the list at a path, which is created if it does not exist or is null.

        Raises:
            UneditableText: with file and line, if the text cannot be changed without a change of other values.
        """
        section = find_node(self.root, path)
        if not isinstance(section, yaml.SequenceNode) or not section.value:
            return self.set(path, [item])
        old = _value_at(self.value, path)
        items = old if isinstance(old, list) else []
        new = _with_value(self.value, path, [*items[:index], item, *items[index:]])
        return self._apply(path, new, lambda: insert_items(self.text, self.root, section, index, [item]))

    def set(self, path: FieldPath, value: JsonValue) -> SourceText:
        """Set a member of a mapping: a new one, or one that is a scalar or empty; raises what `insert` does."""
        *parent_path, key = path
        parent, node = find_node(self.root, tuple(parent_path)), find_node(self.root, path)

        def edit() -> TextEdit:
            if not isinstance(parent, yaml.MappingNode) or not parent.value:
                raise UneditableText("the value around it is empty", hint="add it by hand")
            if node is None:
                return insert_member(self.text, self.root, parent, str(key), value)
            if isinstance(value, dict | list):
                if isinstance(node, yaml.CollectionNode) and node.value:
                    raise UneditableText("its value is not empty", hint="change it by hand")
                return fill_collection(self.text, self.root, parent, node, value)
            if not isinstance(node, yaml.ScalarNode):
                raise UneditableText("its value is not a scalar", hint="change it by hand")
            return replace_scalar(self.text, node, value)

        return self._apply(path, _with_value(self.value, path, value), edit)

    def remove(self, path: FieldPath) -> SourceText:
        """Remove an item of a list that has others; raises what `insert` does."""
        *section_path, index = path
        section = find_node(self.root, tuple(section_path))
        items = _value_at(self.value, tuple(section_path))

        def edit() -> TextEdit:
            if not isinstance(section, yaml.SequenceNode) or len(section.value) < 2:
                raise UneditableText("the list would be empty", hint="remove it by hand")
            return remove_item(self.text, section, int(index))

        kept = [item for number, item in enumerate(items if isinstance(items, list) else []) if number != index]
        return self._apply(path, _with_value(self.value, tuple(section_path), kept), edit)

    def followed_by(self, value: JsonValue) -> SourceText:
        """Return the text of this document and of a new one after it, a mapping that is not empty."""
        root = self.root if isinstance(self.root, yaml.MappingNode) else None
        new = encode_document(value, self.text, self.root, is_json=self.is_json, model=root)
        newline = newline_of(self.text)
        separator = "" if self.is_json else f"---{newline}"
        end = "" if self.text.endswith("\n") else newline
        return replace(self, text=f"{self.text}{end}{separator}{new}")

    def error(self, problem: str) -> UneditableText:
        """Return the error about an edit of this document."""
        return UneditableText(f"{self.file}:{self.line(())}: {problem}", hint=_ALIAS_HINT)

    def _apply(self, path: FieldPath, value: JsonValue, edit: Callable[[], TextEdit]) -> SourceText:
        location = f"{self.file}:{self.line(path)}"
        try:
            text = apply_edits(self.text, [edit()])
        except UneditableText as error:
            raise UneditableText(f"{location}: cannot be edited: {error.message}", hint=error.hint) from error
        found = list(read_documents(text.encode(errors="surrogatepass")))
        if len(found) != 1 or isinstance(found[0], InvalidDocument) or found[0].value != value:
            raise UneditableText(f"{location}: an edit would change other values as well", hint=_ALIAS_HINT)
        return SourceText(self.file, text, value, self.first_line, self.is_json)


def _value_at(value: JsonValue, path: FieldPath) -> JsonValue:
    """Return the value at a path, None if it does not exist."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _with_value(value: JsonValue, path: FieldPath, new: JsonValue) -> JsonValue:
    """Return a copy of a value with another value at a path, whose parent exists."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, list) and isinstance(step, int):
        return [*value[:step], _with_value(value[step], rest, new), *value[step + 1 :]]
    members = value if isinstance(value, dict) else {}
    return {**members, str(step): _with_value(members.get(str(step)), rest, new)}
