"""Insertion of entries of ``spec.relatedImages`` into the text of a ClusterServiceVersion, in its style."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import yaml

from opmkit.bundle.pinning.object_images import RELATED_IMAGES
from opmkit.bundle.pinning.text_edits import TextEdit
from opmkit.bundle.source_nodes import find_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.bundle.json_value import JsonValue
    from opmkit.bundle.pinning.related_images import RelatedImage

_SPEC, _KEY = RELATED_IMAGES
_INDENTATION = re.compile(r"[ \t]*")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9._/:@-]*[A-Za-z0-9]|[A-Za-z0-9._/:-]+@[a-z0-9:]+")


def add_related_images(
    text: str, root: yaml.Node, value: JsonValue, entries: Sequence[RelatedImage]
) -> tuple[TextEdit, JsonValue] | None:
    """Return the edit of the text that adds entries, and the new value; None if the document has no spec.

    Args:
        text: The text of the ClusterServiceVersion.
        root: The root of its node graph.
        value: Its value.
        entries: The entries to add, at least one.
    """
    spec, section = find_node(root, (_SPEC,)), find_node(root, RELATED_IMAGES)
    if not (isinstance(spec, yaml.MappingNode) and spec.value and isinstance(value, dict)):
        return None
    old_spec: Any = value[_SPEC]
    old = old_spec.get(_KEY) or []
    new_value: JsonValue = {**value, _SPEC: {**old_spec, _KEY: [*old, *(entry.as_dict() for entry in entries)]}}
    if isinstance(section, yaml.SequenceNode) and section.value:
        edit = _append(text, section, entries)
    elif section is not None:
        edit = _fill(text, spec, section, entries)
    else:
        edit = _insert(text, root, spec, entries)
    return edit, new_value


def _append(text: str, section: yaml.SequenceNode, entries: Sequence[RelatedImage]) -> TextEdit:
    """Add entries after the last one of a section."""
    last = section.value[-1]
    if section.flow_style:
        gap = text[section.start_mark.index + 1 : section.value[0].start_mark.index]
        indent = gap.rpartition("\n")[2] if "\n" in gap else ""
        multiline = "\n" in text[last.start_mark.index : last.end_mark.index]
        items = [_flow(entry.as_dict(), text, indent if multiline else None) for entry in entries]
        separator = gap if "\n" in gap else " "
        return _insertion(last.end_mark.index, "".join(f",{separator}{item}" for item in items))
    indent = " " * _item_column(text, section)
    return _insert_line(text, section, "".join(_block_items(entries, indent, _key_order(last), _newline(text))))


def _key_order(entry: yaml.Node) -> tuple[str, ...]:
    """Return the keys of an entry in the order of an existing one."""
    keys = [key.value for key, _ in entry.value] if isinstance(entry, yaml.MappingNode) else []
    return ("image", "name") if keys[:1] == ["image"] else ("name", "image")


def _fill(text: str, spec: yaml.MappingNode, section: yaml.Node, entries: Sequence[RelatedImage]) -> TextEdit:
    """Replace an empty section."""
    start, end = section.start_mark.index, section.end_mark.index
    if spec.flow_style:
        line = text[text.rfind("\n", 0, start) + 1 :]
        indent = _indentation(line) if "\n" in text else None
        return TextEdit(start, end, _flow([entry.as_dict() for entry in entries], text, indent))
    newline = _newline(text)
    indent = " " * (_key_column(spec) + _sequence_offset(text, spec))
    items = "".join(_block_items(entries, indent, ("name", "image"), newline)).removesuffix(newline)
    before = text[:start].rstrip(" ")
    return TextEdit(len(before), end, newline + items)


def _insert(text: str, root: yaml.Node, spec: yaml.MappingNode, entries: Sequence[RelatedImage]) -> TextEdit:
    """Add a section to the spec: in alphabetical order if the other keys have that order, otherwise at its end."""
    if spec.flow_style:
        return _insert_flow(text, spec, entries)
    newline, indent = _newline(text), " " * _key_column(spec)
    items = _block_items(entries, indent + " " * _sequence_offset(text, root), ("name", "image"), newline)
    section = f"{indent}{_KEY}:{newline}{''.join(items)}"
    keys = [key.value for key, _ in spec.value]
    following = next((key for key, _ in spec.value if key.value > _KEY), None) if keys == sorted(keys) else None
    if following is None and _is_open(text, spec.value[-1][1]):
        following = spec.value[-1][0]
    if following is None:
        return _insert_line(text, spec, section)
    position = _before_comments(text, text.rfind("\n", 0, following.start_mark.index) + 1, indent)
    return _insertion(position, section)


def _insert_flow(text: str, spec: yaml.MappingNode, entries: Sequence[RelatedImage]) -> TextEdit:
    gap = text[spec.start_mark.index + 1 : spec.value[0][0].start_mark.index]
    indent = gap.rpartition("\n")[2] if "\n" in gap else None
    items = _flow([entry.as_dict() for entry in entries], text, indent)
    colon = ": " if '": ' in text or indent is not None or '"' not in text else ":"
    separator = gap if "\n" in gap else colon[1:]
    return _insertion(spec.value[-1][1].end_mark.index, f',{separator}"{_KEY}"{colon}{items}')


def _flow(value: JsonValue, text: str, indent: str | None) -> str:
    """Return a value as JSON: on one line without ``indent``, otherwise with the indentation of the text."""
    if indent is None or "\n" not in text:
        return json.dumps(value, separators=(", ", ": ") if '": ' in text else (",", ":"))
    step = next((found[0] for line in text.splitlines()[1:] if (found := _INDENTATION.match(line)) and found[0]), "  ")
    return json.dumps(value, indent=step).replace("\n", f"{_newline(text)}{indent}")


def _block_items(entries: Sequence[RelatedImage], indent: str, keys: tuple[str, ...], newline: str) -> Iterator[str]:
    for entry in entries:
        lines = [f"{key}: {_scalar(str(entry.as_dict()[key]))}{newline}" for key in keys]
        yield f"{indent}- {lines[0]}{indent}  {lines[1]}"


def _scalar(value: str) -> str:
    from opmkit.bundle.go_yaml import resolve

    return value if _PLAIN.fullmatch(value) and resolve(value) == value else json.dumps(value)


def _insert_line(text: str, node: yaml.Node, lines: str) -> TextEdit:
    """Insert lines after the one in which a collection ends."""
    end = _end(text, node)
    if end > 0 and text[end - 1] == "\n":
        return _insertion(end, lines)
    line_end = text.find("\n", end)
    if line_end < 0:
        newline = _newline(text)
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


def _key_column(node: yaml.MappingNode) -> int:
    """Return the column of the keys; the mark of the mapping is that of its anchor, if it has one."""
    return node.value[0][0].start_mark.column  # type: ignore[no-any-return]


def _item_column(text: str, node: yaml.SequenceNode) -> int:
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
                return max(0, _item_column(text, child) - _key_column(node))
            if not isinstance(child, yaml.ScalarNode):
                pending.append(child)
    return 0


def _indentation(line: str) -> str:
    match = _INDENTATION.match(line)
    return match[0] if match else ""


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _insertion(position: int, text: str) -> TextEdit:
    return TextEdit(position, position, text)
