"""Text of new values in the style of an existing YAML or JSON document: indentation, line breaks and quotes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from opmkit.documents.json_value import JsonValue

_INDENTATION = re.compile(r"[ \t]*")
_PLAIN = re.compile(r"(?:[A-Za-z_]|[0-9][0-9.:]*/)[A-Za-z0-9._/:@+-]*[A-Za-z0-9]|[A-Za-z0-9._/:-]+@[a-z0-9:]+")
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
        if style != '"' and _PLAIN.fullmatch(value) and resolve(value) == value:
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
