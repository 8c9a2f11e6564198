"""Layout of help texts: reflowed paragraphs, and examples broken at spaces."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import cleandoc

_HEADING = re.compile(r"\[bold\](.*?)\[/\] *(.*)")
_WORD = r"(?:[^\s\"']|\"[^\"]*\"|'[^']*')+"
_WORDS = re.compile(rf"(?:-\S+|[|>]+|&&) (?!-){_WORD}|{_WORD}")
"""Words of a command line; flags and operators with the word behind them."""
_INDENT = "  "
NO_BREAK = "\N{NO-BREAK SPACE}"
"""A space at which ``wrap`` breaks no line."""


@dataclass(frozen=True, slots=True)
class Style:
    """Escape sequences for headings and names; empty for plain text."""

    heading: str = ""
    name: str = ""
    reset: str = ""

    def format_heading(self, text: str) -> str:
        """Return a heading."""
        return f"{self.heading}{text}{self.reset}"

    def format_name(self, text: str) -> str:
        """Return the name of a flag, an argument or a command."""
        return f"{self.name}{text}{self.reset}"


PLAIN = Style()
COLORED = Style("\x1b[1m", "\x1b[36m", "\x1b[0m")


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Break a text at spaces into lines of at most ``width`` characters; longer words are not broken."""
    lines = textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(NO_BREAK, " ") for line in lines]


def split_help(text: str) -> tuple[str, str]:
    """Return the first paragraph of a docstring as one line, and the others."""
    first, _, others = cleandoc(text).partition("\n\n")
    return " ".join(first.split()), others


def format_paragraphs(text: str, width: int, style: Style = PLAIN) -> Iterator[str]:
    """Yield the lines of a help text.

    Lines that are indented in ``text`` keep their breaks; in examples, those that are indented further continue the
    line before them. Headings are marked up as ``[bold]Examples:[/]``, and may be followed by an example.
    """
    is_example = False
    for block in filter(None, re.split(r"\n\s*\n", text)):
        if not is_example:
            yield ""
        lines = block.split("\n")
        if heading := _HEADING.match(lines[0]):
            yield style.format_heading("Examples:")
            is_example = True
            lines = [_INDENT + heading[2], *lines[1:]] if heading[2] else lines[1:]
        elif is_example and not lines[0].startswith(" "):
            is_example = False
            yield ""
        yield from _format_examples(lines, width) if is_example else _format_block(lines, width)


def _format_block(lines: list[str], width: int) -> Iterator[str]:
    """Yield the lines of a paragraph, with the indented lines in it."""
    paragraph: list[str] = []
    for line in lines:
        if line.startswith(" "):
            yield from wrap(" ".join(paragraph), width)
            paragraph = []
            yield line
        else:
            paragraph.append(line)
    yield from wrap(" ".join(paragraph), width)


def _format_examples(lines: list[str], width: int) -> Iterator[str]:
    """Yield commands; those that are too long are continued as in a shell."""
    commands: list[str] = []
    for line in lines:
        if commands and line.startswith(_INDENT * 2):
            commands[-1] += f" {line.strip()}"
        else:
            commands.append(line.strip())
    for command in commands:
        yield from _break_command(command, width)


def _break_command(command: str, width: int) -> Iterator[str]:
    line = _INDENT
    for word in _WORDS.findall(command):
        if line.strip() and len(line) + len(word) + len(" \\") >= width and len(_INDENT + command) > width:
            yield f"{line} \\"
            line = _INDENT * 2 + word
        else:
            line += word if not line.strip() else f" {word}"
    yield line
