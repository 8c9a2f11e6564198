"""Layout of help texts: reflowed paragraphs, and examples broken at spaces."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from inspect import cleandoc

_HEADING = re.compile(r"^\[bold\]Examples?:\[/\](.*)", re.MULTILINE)
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


def parse_examples(text: str) -> tuple[str, list[str]]:
    """Return the paragraphs before the examples of a help text, and each example as one command line.

    The examples are the end of the text, after a heading such as ``[bold]Examples:[/]``. Lines that are indented more
    continue the line before them.
    """
    heading = _HEADING.search(text)
    if heading is None:
        return text, []
    examples: list[str] = []
    for line in filter(str.strip, [f"{_INDENT}{heading[1].strip()}", *text[heading.end() :].split("\n")]):
        if examples and line.startswith(_INDENT * 2):
            examples[-1] += f" {line.strip()}"
        else:
            examples.append(line.strip())
    return text[: heading.start()].rstrip(), examples


def format_paragraphs(text: str, width: int) -> Iterator[str]:
    """Yield the lines of paragraphs, each after an empty line; lines that are indented keep their breaks."""
    for block in filter(None, re.split(r"\n\s*\n", text)):
        yield ""
        yield from _format_block(block.split("\n"), width)


def format_examples(examples: Iterable[str], width: int) -> Iterator[str]:
    """Yield the lines of command lines; those that are too long are continued as in a shell."""
    for example in examples:
        yield from _break_command(example, width)


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


def _break_command(command: str, width: int) -> Iterator[str]:
    line = _INDENT
    for word in _WORDS.findall(command):
        if line.strip() and len(line) + len(word) + len(" \\") >= width and len(_INDENT + command) > width:
            yield f"{line} \\"
            line = _INDENT * 2 + word
        else:
            line += word if not line.strip() else f" {word}"
    yield line
