"""Edits of the text of a YAML or JSON document that leave everything else in it as it is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import yaml

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+=-]*[A-Za-z0-9=]")
"""Text that can replace a part of a scalar in any style."""


@dataclass(frozen=True, slots=True, order=True)
class TextEdit:
    """The replacement of a part of a text; an insertion if the part is empty."""

    start: int
    end: int
    replacement: str


class UneditableText(BundleError):
    """A value that cannot be edited in the text of its document."""


def replace_in_scalar(text: str, node: yaml.ScalarNode, start: int, old: str, new: str) -> TextEdit:
    """Return the edit that replaces a part of the value of a scalar.

    Args:
        text: The text of the document.
        node: The scalar.
        start: Offset of the part in the value.
        old: The part, which has no whitespace.
        new: The replacement.

    Raises:
        UneditableText: if the part is written with escapes or line breaks.
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
        UneditableText: if parts overlap.
    """
    pieces, position = [], 0
    for edit in sorted(set(edits)):
        if edit.start < position:
            raise UneditableText("two changes of the same text overlap", hint="separate them")
        pieces += [text[position : edit.start], edit.replacement]
        position = edit.end
    return "".join([*pieces, text[position:]])
