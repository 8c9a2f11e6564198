"""Insertion of entries of ``spec.relatedImages`` into the text of a ClusterServiceVersion, in its style."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from opmkit.author.pin.object_images import RELATED_IMAGES
from opmkit.documents.source_nodes import find_node
from opmkit.documents.text_edits import fill_collection, insert_items, insert_member

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.author.pin.related_images import RelatedImage
    from opmkit.documents.json_value import JsonValue
    from opmkit.documents.text_edits import TextEdit

_SPEC, _KEY = RELATED_IMAGES


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
    added: list[JsonValue] = [entry.as_dict() for entry in entries]
    new_value: JsonValue = {**value, _SPEC: {**old_spec, _KEY: [*(old_spec.get(_KEY) or []), *added]}}
    if isinstance(section, yaml.SequenceNode) and section.value:
        edit = insert_items(text, root, section, len(section.value), added)
    elif section is not None:
        edit = fill_collection(text, spec, spec, section, added)
    else:
        edit = insert_member(text, root, spec, _KEY, added)
    return edit, new_value
