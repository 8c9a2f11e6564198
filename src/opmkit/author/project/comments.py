"""Comments of Go sources: groups, documentation and markers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_DIRECTIVE = re.compile(r"line |extern |export |[a-z0-9]+:[a-z0-9]")
_FENCES = ("```", "~~~")


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment, with its delimiters.

    Attributes:
        text: The text, with the delimiters.
        line: Line of its start, from 1.
        last_line: Line of its end.
        trails: Whether code precedes it in its line.
    """

    text: str
    line: int
    last_line: int
    trails: bool = False

    @property
    def is_marker(self) -> bool:
        """Whether the comment is a marker: a line comment that begins with a plus sign."""
        return self.text.startswith("//") and self.marker_text.startswith("+")

    @property
    def marker_text(self) -> str:
        """The text without delimiters and surrounding spaces."""
        return self.text[2:].strip()


CommentGroup = tuple[Comment, ...]
"""Comments in consecutive lines."""


def group_comments(comments: Iterable[Comment]) -> list[CommentGroup]:
    """Group comments without code between them, as Go's parser does: comments after code start a new group."""
    groups: list[list[Comment]] = []
    for comment in comments:
        previous = groups[-1][-1] if groups else None
        gap = 0 if previous and groups[-1][0].trails else 1
        if previous and not comment.trails and comment.line <= previous.last_line + gap:
            groups[-1].append(comment)
        else:
            groups.append([comment])
    return [tuple(group) for group in groups]


def documentation(group: Sequence[Comment]) -> str:
    """Return the text of a doc comment, as it becomes a description: without markers, TODOs, and lines after ``---``.

    The rules are those of controller-tools, https://book.kubebuilder.io/reference/markers.
    """
    comments = [comment for comment in group if not comment.is_marker]
    strips = any(comment.text.startswith("/*") for comment in comments)
    lines = []
    in_code_block = False
    for line in _lines(comments):
        text = line.strip() if strips else line
        if text.startswith(_FENCES):
            in_code_block = not in_code_block
        if not in_code_block:
            if text.startswith("TODO"):
                continue
            if text.startswith("---"):
                break
        lines.append(text)
    return "\n".join(lines)


def _lines(comments: Iterable[Comment]) -> list[str]:
    """Return the lines of comments without delimiters and directives; consecutive empty lines are joined."""
    lines: list[str] = []
    for comment in comments:
        body = comment.text[2:-2] if comment.text.startswith("/*") else comment.text[2:]
        if comment.text.startswith("//"):
            if body and not body.startswith(" ") and _DIRECTIVE.match(body):
                continue
            body = body.removeprefix(" ")
        for line in body.split("\n"):
            text = line.rstrip(" \t\r\n")
            if text or (lines and lines[-1]):
                lines.append(text)
    return lines[:-1] if lines and not lines[-1] else lines
