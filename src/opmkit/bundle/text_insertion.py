"""Insertion of values into the text of a YAML or JSON document, in the style of what surrounds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from opmkit.bundle.text_edits import TextEdit, UneditableText
from opmkit.bundle.text_style import (
    BlockStyle,
    flow_text,
    indentation_of,
    item_column,
    key_column,
    most_similar,
    newline_of,
    scalar_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.bundle.json_value import JsonValue

_FIRST_KEYS = ("schema", "Schema")
"""Keys that stay first in a mapping."""


def insert_items(
    text: str, root: yaml.Node, section: yaml.SequenceNode, index: int, values: Sequence[JsonValue]
) -> TextEdit:
    """Insert values into a list that is not empty, before the item at ``index``, or after the last one.

    Mappings get the order of keys and the quotes of the existing item that is most like them. Comments directly above
    an item stay with it.

    Raises:
        UneditableText: if the item shares its line with others.
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
        UneditableText: if the item shares its line with others.
    """
    node = section.value[index]
    if section.flow_style:
        if index:
            return TextEdit(section.value[index - 1].end_mark.index, node.end_mark.index, "")
        return TextEdit(node.start_mark.index, section.value[1].start_mark.index, "")
    start = _before_comments(text, _dash_line(text, section, index), " " * item_column(text, section))
    line_end = text.find("\n", _end(text, node))
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
