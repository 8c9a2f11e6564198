"""Lines and columns of the values in YAML and JSON."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import yaml

from opmkit.bundle.source_nodes import NodeComposer

if TYPE_CHECKING:
    from opmkit.bundle.field_path import FieldPath


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
