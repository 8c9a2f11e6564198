"""Help pages of commands and groups, as plain text for terminals of any width."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from typing import Any

from msgspec.structs import replace
from typer.core import TyperGroup

from opmkit.cli.help.content import (
    COLORED,
    NO_BREAK,
    PLAIN,
    HelpContent,
    HelpEntry,
    Style,
    describe_command,
    format_examples,
    format_paragraphs,
    list_commands,
    wrap,
)
from opmkit.cli.help.panels import SPECIAL_PANELS, is_long
from opmkit.cli.output.console import print_bytes

_MAX_WIDTH = 100
_MAX_TERM_WIDTH = 30
"""Longer names have their description on the next line."""
_MIN_TERM_WIDTH = 5
"""Width for the names of a table if all of them are longer."""
_MAX_EXAMPLES = 3
"""Number of examples on short pages."""


def print_help(ctx: Any, *, full: bool = False) -> None:
    """Print the help of the command of ``ctx``; ``full`` help has all flags, and the commands of all groups."""
    print_bytes([current_help(ctx, full=full).encode(), b"\n"])


def current_help(ctx: Any, *, full: bool = False) -> str:
    """Return the help of the command of ``ctx`` for the terminal of this process, if stdout is one.

    Other programs, which search the help of a command for flags, get all of them.
    """
    full = full or not (sys.stdout.isatty() or isinstance(ctx.command, TyperGroup))
    is_colored = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return format_help(ctx, get_terminal_size().columns, COLORED if is_colored else PLAIN, full=full)


def format_help(ctx: Any, width: int, style: Style = PLAIN, *, full: bool = False) -> str:
    """Return the help of the command of ``ctx``; ``full`` help has all flags, and the commands of all groups."""
    content = describe_command(ctx)
    if full and isinstance(ctx.command, TyperGroup):
        content = replace(content, commands=tuple(list_commands(ctx.command, ctx.command_path)))
    is_short = not full and is_long(ctx.command.get_params(ctx))
    return "\n".join(_format(content, min(width, _MAX_WIDTH), style, is_short=is_short))


def _format(content: HelpContent, width: int, style: Style, *, is_short: bool) -> Iterator[str]:
    """Yield the lines of a page; a short one has fewer examples, and only names the special groups of flags."""
    examples = content.examples[: _MAX_EXAMPLES if is_short else None]
    yield from (*wrap(content.summary, width), "", f"{style.format_heading('Usage:')} {content.usage}")
    yield from format_paragraphs(content.description, width)
    if examples:
        yield from ("", style.format_heading("Examples:"), *format_examples(examples, width))
    yield from _section("Commands", content.commands, width, style)
    yield from _section("Arguments", content.arguments, width, style)
    omitted = [panel for panel in content.panels if is_short and panel in SPECIAL_PANELS]
    for panel, flags in content.panels.items():
        if panel not in omitted:
            yield from _section(panel, flags, width, style)
    if omitted:
        more = "flags" if examples == content.examples else "examples and flags"
        yield from ("", *wrap(f"More {more} with --help-all: {', '.join(omitted)}", width))


def _section(heading: str, entries: Sequence[HelpEntry], width: int, style: Style) -> Iterator[str]:
    """Yield a heading and a table of names and descriptions; nothing if there are no entries."""
    if not entries:
        return
    yield ""
    yield style.format_heading(f"{heading}:")
    rows = [(_term(entry), _description(entry)) for entry in entries]
    column = 4 + max((len(term) for term, _ in rows if len(term) <= _MAX_TERM_WIDTH), default=_MIN_TERM_WIDTH)
    for term, description in rows:
        first, *others = wrap(description, width, " " * column) or [""]
        if len(term) + 4 <= column:
            yield f"  {style.format_name(term)}{first[len(term) + 2 :]}".rstrip()
        else:
            yield f"  {style.format_name(term)}"
            yield first
        yield from others


def _term(entry: HelpEntry) -> str:
    """Return the names of a flag, aligned whether it has a short one or not, and of its value."""
    names = f"{entry.short}, {entry.name}".removeprefix(", ").removesuffix(", ")
    names = f"    {names}" if names.startswith("--") else names
    return f"{names} {entry.value}".rstrip()


def _description(entry: HelpEntry) -> str:
    suffix = f"[default: {entry.default}]" if entry.default else ""
    suffix = suffix.replace(" ", NO_BREAK) if len(suffix) <= _MAX_TERM_WIDTH else suffix
    return f"{entry.text} {suffix}".strip()
