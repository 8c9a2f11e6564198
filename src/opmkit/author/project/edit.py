"""Replace the owned CRDs in the text of a ClusterServiceVersion; comments and formatting elsewhere are retained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from opmkit.documents.yaml_writer import dump_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.documents.json_value import JsonValue

_SECTION = "customresourcedefinitions"
_OWNED = "owned"


def replace_owned_crds(raw: bytes, owned: Sequence[JsonValue]) -> bytes | None:
    """Return the bytes of a file with other owned CRDs, or None if its syntax does not permit it.

    The result can be wrong for unusual files, such as those with aliases: compare its value with the intended one.
    """
    try:
        text = raw.decode()
        root = yaml.compose(text, yaml.CSafeLoader)
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return None
    _, spec = _member(root, "spec")
    if spec is None or not _is_block(spec):
        return None
    key, section = _member(spec, _SECTION)
    if key is None or section is None:
        first = spec.value[0][0]
        return _replace(text, first.start_mark.line, first.start_mark.line, first, {_SECTION: {_OWNED: list(owned)}})
    if not _is_block(section):
        return _replace(text, key.start_mark.line, _last_line(section), key, {_SECTION: {_OWNED: list(owned)}})
    owned_key, value = _member(section, _OWNED)
    if owned_key is None or value is None:
        first = section.value[0][0]
        return _replace(text, first.start_mark.line, first.start_mark.line, first, {_OWNED: list(owned)})
    return _replace(text, owned_key.start_mark.line, _last_line(value), owned_key, {_OWNED: list(owned)})


def _is_block(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and not node.flow_style and bool(node.value)


def _member(node: yaml.Node | None, name: str) -> tuple[yaml.Node | None, yaml.Node | None]:
    """Return the key and value of a member of a mapping, None if it does not exist."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == name:
                return key, value
    return None, None


def _last_line(node: yaml.Node) -> int:
    """Return the number of the line after a value, without the comments and blank lines that follow it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    mark = node.end_mark
    return mark.line if mark.column == 0 else mark.line + 1


def _replace(text: str, start: int, end: int, key: yaml.Node, members: dict[str, JsonValue]) -> bytes:
    """Replace the lines from ``start`` to ``end`` by the members, indented like ``key``."""
    lines = text.splitlines(keepends=True)
    indent = " " * key.start_mark.column
    new = [
        f"{indent}{line}" if line.strip() else line for line in dump_yaml(members).decode().splitlines(keepends=True)
    ]
    return "".join([*lines[:start], *new, *lines[end:]]).encode()
