"""Edits of the text of a YAML or JSON document that leave everything else in it as it is."""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING

import yaml
from msgspec import Struct
from msgspec.structs import replace

from opmkit.documents.document_stream import leading_lines, read_documents
from opmkit.documents.errors import InvalidDocument, UneditableText
from opmkit.documents.source_nodes import compose_document, find_node, nearest_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opmkit.documents.document_stream import Document
    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue


_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+=-]*[A-Za-z0-9=]")
"""Text that can replace a part of a scalar in any style."""


class TextEdit(Struct, frozen=True, order=True):
    """The replacement of a part of a text; an insertion if the part is empty."""

    start: int
    end: int
    replacement: str


def replace_in_scalar(text: str, node: yaml.ScalarNode, start: int, old: str, new: str) -> TextEdit:
    """Return the edit that replaces a part of the value of a scalar.

    Args:
        text: The text of the document.
        node: The scalar.
        start: Offset of the part in the value.
        old: The part, which has no whitespace.
        new: The replacement.

    Raises:
        UneditableText: The part is written with escapes or line breaks.
    """
    node_start, node_end = node.start_mark.index, node.end_mark.index
    if node.style in ("|", ">"):
        node_start = text.index("\n", node_start)  # its first line can have a comment
    source = text[node_start:node_end]
    positions = _find_all(old, node.value)
    source_positions = _find_all(old, source)
    if len(positions) == len(source_positions) and start in positions and _PLAIN.fullmatch(new):
        at = node_start + source_positions[positions.index(start)]
        return TextEdit(at, at + len(old), new)
    if node.style == '"' and source.startswith('"') and source.isascii():
        value = node.value[:start] + new + node.value[start + len(old) :]
        return TextEdit(node_start, node_end, json.dumps(value))
    raise UneditableText(
        f"{old} cannot be replaced: it is written with escapes or line breaks", hint="write it on one line as it is"
    )


def _find_all(part: str, text: str) -> list[int]:
    """Return the offsets of the occurrences of a part, which may overlap."""
    return [match.start() for match in re.finditer(f"(?={re.escape(part)})", text)]


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    """Apply edits, whose parts must not overlap; equal edits are applied once.

    Raises:
        UneditableText: Parts overlap.
    """
    pieces, position = [], 0
    for edit in sorted(set(edits)):
        if edit.start < position:
            raise UneditableText("two changes of the same text overlap", hint="separate them")
        pieces += [text[position : edit.start], edit.replacement]
        position = edit.end
    return "".join([*pieces, text[position:]])


_FIRST_KEYS = ("schema", "Schema")
"""Keys that stay first in a mapping."""


def insert_items(
    text: str, root: yaml.Node, section: yaml.SequenceNode, index: int, values: Sequence[JsonValue]
) -> TextEdit:
    """Insert values into a list that is not empty, before the item at ``index``, or after the last one.

    Mappings get the order of keys and the quotes of the existing item that is most like them. Comments directly above
    an item stay with it.

    Raises:
        UneditableText: The item shares its line with others.
    """
    at_end = index >= len(section.value)
    if section.flow_style:
        neighbor = section.value[-1 if at_end else index]
        gap = text[section.start_mark.index + 1 : section.value[0].start_mark.index]
        indent = gap.rpartition("\n")[2] if "\n" in gap else ""
        multiline = "\n" in text[neighbor.start_mark.index : neighbor.end_mark.index]
        items = [flow_text(value, text, indent if multiline else None) for value in values]
        separator = gap if "\n" in gap else " "
        if at_end:
            return _insertion(neighbor.end_mark.index, "".join(f",{separator}{item}" for item in items))
        return _insertion(neighbor.start_mark.index, "".join(f"{item},{separator}" for item in items))
    indent = " " * item_column(text, section)
    style = BlockStyle(text, root)
    lines = "".join(style.item(value, indent, most_similar(section, value)) for value in values)
    if at_end:
        return _insert_line(text, section, lines)
    return _insertion(_before_comments(text, _dash_line(text, section, index), indent), lines)


def fill_collection(
    text: str, root: yaml.Node, parent: yaml.MappingNode, section: yaml.Node, value: JsonValue
) -> TextEdit:
    """Replace an empty list or mapping, or null, which is a value in ``parent``, by a value that is not empty."""
    start, end = section.start_mark.index, section.end_mark.index
    if parent.flow_style:
        line = text[text.rfind("\n", 0, start) + 1 :]
        indent = indentation_of(line) if "\n" in text else None
        return TextEdit(start, end, flow_text(value, text, indent))
    before = text[:start].rstrip(" ")
    lines = BlockStyle(text, root).nested(value, " " * key_column(parent))
    return TextEdit(len(before), end, newline_of(text) + lines.removesuffix(newline_of(text)))


def insert_member(
    text: str,
    root: yaml.Node,
    mapping: yaml.MappingNode,
    key: str,
    value: JsonValue,
    model: yaml.Node | None = None,
) -> TextEdit:
    """Add a member to a mapping that is not empty: in alphabetical order if its keys have that order, otherwise last.

    Args:
        text: The text of the document.
        root: The root of its node graph.
        mapping: The mapping.
        key: The key, which the mapping lacks.
        value: Its value.
        model: A mapping whose quotes to use.
    """
    if mapping.flow_style:
        return _insert_flow_member(text, mapping, key, value)
    indent = " " * key_column(mapping)
    lines = BlockStyle(text, root).member(key, value, indent, model)
    keys = [node.value for node, _ in mapping.value]
    others = mapping.value[1:] if keys[0] in _FIRST_KEYS else mapping.value
    following = next((node for node, _ in others if node.value > key), None) if keys == sorted(keys) else None
    if following is None and _is_open(text, mapping.value[-1][1]):
        following = mapping.value[-1][0]
    if following is not None:
        start = text.rfind("\n", 0, following.start_mark.index) + 1
        if not text[start : following.start_mark.index].strip():
            return _insertion(_before_comments(text, start, indent), lines)
    return _insert_line(text, mapping, lines)


def replace_scalar(text: str, node: yaml.ScalarNode, value: JsonValue) -> TextEdit:
    """Replace the value of a scalar by another scalar; quotes are retained."""
    start, end = node.start_mark.index, _end(text, node)
    separator = " " if text[start - 1 : start] == ":" else ""  # null without a text
    return TextEdit(start, end, f"{separator}{scalar_text(value, node.style)}")


def remove_item(text: str, section: yaml.SequenceNode, index: int) -> TextEdit:
    """Remove an item of a list that has others, with the comments directly above it.

    Raises:
        UneditableText: The item shares its line with others.
    """
    node = section.value[index]
    if section.flow_style:
        if index:
            return TextEdit(section.value[index - 1].end_mark.index, node.end_mark.index, "")
        return TextEdit(node.start_mark.index, section.value[1].start_mark.index, "")
    start = _before_comments(text, _dash_line(text, section, index), " " * item_column(text, section))
    line_end = text.find("\n", _end(text, node))
    return TextEdit(start, len(text) if line_end < 0 else line_end + 1, "")


def remove_member(text: str, mapping: yaml.MappingNode, key: str, comments: str = "") -> TextEdit:
    """Remove a member of a mapping that has others.

    Args:
        text: The text of the document.
        mapping: The mapping.
        key: The key, which the mapping has.
        comments: Pattern of the comment lines directly above it that are removed with it; "" for none.

    Raises:
        UneditableText: The member shares its line with others.
    """
    index = next(number for number, (node, _) in enumerate(mapping.value) if node.value == key)
    node, value = mapping.value[index]
    if mapping.flow_style:
        if index:
            return TextEdit(mapping.value[index - 1][1].end_mark.index, value.end_mark.index, "")
        return TextEdit(node.start_mark.index, mapping.value[1][0].start_mark.index, "")
    start = text.rfind("\n", 0, node.start_mark.index) + 1
    if text[start : node.start_mark.index].strip():
        raise UneditableText("the member shares its line with others", hint="write each member on its own line")
    while comments and start > 0:
        above = text.rfind("\n", 0, start - 1) + 1
        line = text[above:start].strip()
        if not line.startswith("#") or not re.search(comments, line):
            break
        start = above
    line_end = text.find("\n", max(_end(text, value), node.end_mark.index))
    return TextEdit(start, len(text) if line_end < 0 else line_end + 1, "")


def encode_document(value: JsonValue, text: str, root: yaml.Node, *, is_json: bool, model: yaml.Node | None) -> str:
    """Return a separate document, which ends with a line break, in the style of another one.

    Args:
        value: The content, a mapping that is not empty.
        text: The text of the other document.
        root: The root of its node graph.
        is_json: Whether to return JSON, not YAML.
        model: A mapping whose order of keys and quotes to use.
    """
    if is_json:
        return flow_text(value, text, "") + newline_of(text)
    return BlockStyle(text, root).mapping(value, "", model)


def _insert_flow_member(text: str, mapping: yaml.MappingNode, key: str, value: JsonValue) -> TextEdit:
    gap = text[mapping.start_mark.index + 1 : mapping.value[0][0].start_mark.index]
    indent = gap.rpartition("\n")[2] if "\n" in gap else None
    encoded = flow_text(value, text, indent)
    colon = ": " if '": ' in text or indent is not None or '"' not in text else ":"
    separator = gap if "\n" in gap else colon[1:]
    return _insertion(mapping.value[-1][1].end_mark.index, f',{separator}"{key}"{colon}{encoded}')


def _insert_line(text: str, node: yaml.Node, lines: str) -> TextEdit:
    """Insert lines after the one in which a collection ends."""
    end = _end(text, node)
    if end > 0 and text[end - 1] == "\n":
        return _insertion(end, lines)
    line_end = text.find("\n", end)
    if line_end < 0:
        newline = newline_of(text)
        return _insertion(len(text), f"{newline}{lines.removesuffix(newline)}")
    return _insertion(line_end + 1, lines)


def _end(text: str, node: yaml.Node) -> int:
    """Return the offset after the last character of a node; marks of block collections end at what follows them."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        key, last = node.value[-1] if isinstance(node, yaml.MappingNode) else (node, node.value[-1])
        if last.start_mark.index < key.start_mark.index:  # an alias, whose node is that of the anchor
            return key.end_mark.index
        node = last
    start, end = node.start_mark.index, node.end_mark.index
    source = text[start:end]
    keeps_line_breaks = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">") and "+" in source.split("\n")[0]
    return end if keeps_line_breaks else start + len(source.rstrip())


def _is_open(text: str, node: yaml.Node) -> bool:
    """Return whether a line break at the end of the text would become a part of the last block scalar."""
    while isinstance(node, yaml.CollectionNode) and node.value:
        node = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
    return isinstance(node, yaml.ScalarNode) and node.style in ("|", ">") and not text.endswith("\n")


def _before_comments(text: str, position: int, indent: str) -> int:
    """Return the start of the comments directly above a line, with its indentation."""
    while position > 0:
        start = text.rfind("\n", 0, position - 1) + 1
        if not text.startswith(f"{indent}#", start):
            break
        position = start
    return position


def _dash_line(text: str, node: yaml.SequenceNode, index: int) -> int:
    """Return the start of the line on which an item of a block sequence begins."""
    column, position = item_column(text, node), node.value[index].start_mark.index
    while position > 0:
        start = text.rfind("\n", 0, position) + 1
        if not text[start : start + column].strip() and text.startswith("-", start + column):
            return start
        position = start - 1
    raise UneditableText("the item shares its line with others", hint="write each item of the list on its own line")


def _insertion(position: int, text: str) -> TextEdit:
    return TextEdit(position, position, text)


_ALIAS_HINT = "write it without anchors, aliases and merge keys"


class SourceText(Struct, frozen=True, dict=True):
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
            UneditableText: The text cannot be changed without changing other values; it names the file and the line.
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

    def remove(self, path: FieldPath, *, comments: str = "") -> SourceText:
        """Remove an item of a list, or a member of a mapping, that has others; raises what `insert` does.

        Args:
            path: The path of the item or member, which exists.
            comments: Pattern of the comments directly above a member that are removed with it.
        """
        *section_path, index = path
        section = find_node(self.root, tuple(section_path))
        if isinstance(section, yaml.MappingNode):
            return self._remove_member(section, path, comments)
        items = _value_at(self.value, tuple(section_path))

        def edit() -> TextEdit:
            if not isinstance(section, yaml.SequenceNode) or len(section.value) < 2:
                raise UneditableText("the list would be empty", hint="remove it by hand")
            return remove_item(self.text, section, int(index))

        kept = [item for number, item in enumerate(items if isinstance(items, list) else []) if number != index]
        return self._apply(path, _with_value(self.value, tuple(section_path), kept), edit)

    def _remove_member(self, mapping: yaml.MappingNode, path: FieldPath, comments: str) -> SourceText:
        *parent_path, key = path

        def edit() -> TextEdit:
            if len(mapping.value) < 2:
                raise UneditableText("the mapping would be empty", hint="remove it by hand")
            return remove_member(self.text, mapping, str(key), comments)

        parent = _value_at(self.value, tuple(parent_path))
        members = parent if isinstance(parent, dict) else {}
        kept = {name: value for name, value in members.items() if name != key}
        return self._apply(path, _with_value(self.value, tuple(parent_path), kept), edit)

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


_INDENTATION = re.compile(r"[ \t]*")
_PLAIN_SCALAR = re.compile(r"(?:[A-Za-z_]|[0-9][0-9.:]*/)[A-Za-z0-9._/:@+-]*[A-Za-z0-9]|[A-Za-z0-9._/:-]+@[a-z0-9:]+")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that YAML does not allow, or that hide or reorder others; JSON escapes all other controls."""


class BlockStyle:
    """Encoder of block YAML with the line breaks and the indentation of a text."""

    def __init__(self, text: str, root: yaml.Node) -> None:
        """Create an encoder for a text with this root of its node graph."""
        self._newline = newline_of(text)
        self._offset = " " * _sequence_offset(text, root)

    def item(self, value: JsonValue, indent: str, model: yaml.Node | None = None) -> str:
        """Return an item of a list; ``indent`` is that of the dash."""
        if isinstance(value, dict) and value:
            lines = self.mapping(value, f"{indent}  ", model)
            return f"{indent}- {lines[len(indent) + 2 :]}"
        return f"{indent}- {scalar_text(value, None)}{self._newline}"

    def mapping(self, value: JsonValue, indent: str, model: yaml.Node | None = None) -> str:
        """Return the members of a mapping in the order of a model."""
        if not isinstance(value, dict):
            return ""
        order = [key.value for key, _ in model.value] if isinstance(model, yaml.MappingNode) else []
        keys = sorted(value, key=lambda key: order.index(key) if key in order else len(order))
        return "".join(self.member(key, value[key], indent, model) for key in keys)

    def member(self, key: str, value: JsonValue, indent: str, model: yaml.Node | None = None) -> str:
        """Return a member of a mapping; ``indent`` is that of the key."""
        prefix = f"{indent}{scalar_text(key, None)}:"
        if isinstance(value, dict | list) and value:
            return f"{prefix}{self._newline}{self.nested(value, indent, _member_node(model, key))}"
        style = getattr(_member_node(model, key), "style", None)
        return f"{prefix} {scalar_text(value, style)}{self._newline}"

    def nested(self, value: JsonValue, indent: str, model: yaml.Node | None = None) -> str:
        """Return the lines of a collection that is the value of a key; ``indent`` is that of the key."""
        if isinstance(value, list):
            items = f"{indent}{self._offset}"
            return "".join(self.item(item, items, most_similar(model, item) if model else None) for item in value)
        return self.mapping(value, f"{indent}  ", model)


def most_similar(section: yaml.Node, value: JsonValue) -> yaml.Node | None:
    """Return the mapping in a list that shares most keys with a value, the last of several; None if it has none.

    Mappings with the schema of the value come first.
    """
    if not isinstance(section, yaml.SequenceNode) or not isinstance(value, dict):
        return None
    best, best_rank = None, (False, 1)
    for node in section.value:
        keys = {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)} if _is_mapping(node) else set()
        schema = _member_node(node, "schema")
        same_schema = isinstance(schema, yaml.ScalarNode) and schema.value == value.get("schema")
        rank = (same_schema, len(keys & value.keys()))
        if rank >= best_rank:
            best, best_rank = node, rank
    return best


def _is_mapping(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode)


def _member_node(node: yaml.Node | None, key: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for name, value in pairs if name.value == key), None)


def flow_text(value: JsonValue, text: str, indent: str | None) -> str:
    """Return a value as JSON: on one line without ``indent``, otherwise with the indentation of the text."""
    if indent is None or "\n" not in text:
        encoded = json.dumps(value, separators=(", ", ": ") if '": ' in text else (",", ":"), ensure_ascii=False)
    else:
        step = next(
            (found[0] for line in text.splitlines()[1:] if (found := _INDENTATION.match(line)) and found[0]), "  "
        )
        encoded = json.dumps(value, indent=step, ensure_ascii=False).replace("\n", f"{newline_of(text)}{indent}")
    return _UNPRINTABLE.sub(_escape, encoded)


def scalar_text(value: JsonValue, style: str | None) -> str:
    """Return a value on one line: plain if it is read as it is and if ``style`` has no quotes."""
    from opmkit.documents.go_yaml import resolve

    if isinstance(value, str):
        if style == "'" and value.isprintable():
            return "'" + value.replace("'", "''") + "'"
        if style != '"' and _PLAIN_SCALAR.fullmatch(value) and resolve(value) == value:
            return value
    return _UNPRINTABLE.sub(_escape, json.dumps(value, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match[0]).strip('"') if match[0] != "\x7f" else "\\u007f"


def key_column(node: yaml.MappingNode) -> int:
    """Return the column of the keys; the mark of the mapping is that of its anchor, if it has one."""
    return node.value[0][0].start_mark.column  # type: ignore[no-any-return]


def item_column(text: str, node: yaml.SequenceNode) -> int:
    """Return the column of the dashes of a block sequence."""
    dash = text.rfind("-", 0, node.value[0].start_mark.index)
    return dash - text.rfind("\n", 0, dash) - 1


def _sequence_offset(text: str, root: yaml.Node) -> int:
    """Return by how many spaces the items of the first block sequence are indented below their key."""
    pending = [root]
    while pending:
        node = pending.pop(0)
        for child in (pair[1] for pair in node.value) if isinstance(node, yaml.MappingNode) else node.value:
            is_block = isinstance(child, yaml.SequenceNode) and not child.flow_style and child.value
            if is_block and isinstance(node, yaml.MappingNode):
                return max(0, item_column(text, child) - key_column(node))
            if not isinstance(child, yaml.ScalarNode):
                pending.append(child)
    return 0


def indentation_of(line: str) -> str:
    """Return the whitespace at the start of a line."""
    match = _INDENTATION.match(line)
    return match[0] if match else ""


def newline_of(text: str) -> str:
    """Return the line break that a text uses."""
    return "\r\n" if "\r\n" in text else "\n"
