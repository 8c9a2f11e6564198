"""Patterns of file names in COPY and ADD, those of Go's ``filepath.Match``."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WILDCARDS = re.compile(r"[*?\[\\]")
_TOKEN = re.compile(
    r"\[(?P<negation>\^?+)(?P<members>(?:\\.|[^\\\]])+)\]|\\(?P<escaped>.)|(?P<other>[^\[\\])", re.DOTALL
)
_MEMBER = re.compile(r"\\.|[\[^&~|]", re.DOTALL)
_ANY = re.compile(".", re.DOTALL)


def has_wildcards(path: str) -> bool:
    """Return whether a path is a pattern."""
    return _WILDCARDS.search(path) is not None


@dataclass(frozen=True, slots=True)
class FilePattern:
    """A pattern of one component of a path: expressions for one character each, and None for ``*``."""

    tokens: tuple[re.Pattern[str] | None, ...]

    @classmethod
    def parse(cls, text: str) -> FilePattern:
        """Parse a pattern.

        Raises:
            ValueError: It is invalid.
        """
        tokens: list[re.Pattern[str] | None] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ValueError(f"syntax error in {text[position:]!r}")
            tokens.append(_expression(match))
            position = match.end()
        return cls(tuple(tokens))

    def matches(self, name: str) -> bool:
        """Return whether a name matches, in a time proportional to the lengths of both."""
        position = index = 0
        star, retry = -1, 0  # the last star, and where to continue the name if it matches one more character
        while position < len(name):
            if index < len(self.tokens) and self.tokens[index] is None:
                star, retry = index, position
                index += 1
            elif index < len(self.tokens) and (token := self.tokens[index]) and token.match(name[position]):
                position, index = position + 1, index + 1
            elif star >= 0:
                retry += 1
                position, index = retry, star + 1
            else:
                return False
        return all(token is None for token in self.tokens[index:])


def _expression(match: re.Match[str]) -> re.Pattern[str] | None:
    """Return the expression for a token of a pattern, None for ``*``."""
    if match["members"]:
        members = _MEMBER.sub(lambda member: re.escape(member[0][-1]), match["members"])
        try:
            return re.compile(f"[{match['negation']}{members}]", re.DOTALL)
        except re.error as error:
            raise ValueError(str(error)) from error
    if match["other"] == "*":
        return None
    return _ANY if match["other"] == "?" else re.compile(re.escape(match["escaped"] or match["other"]))
