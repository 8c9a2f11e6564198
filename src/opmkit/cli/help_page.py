"""Help pages of commands and groups, as plain text for terminals of any width."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from shutil import get_terminal_size
from typing import Any

from typer.core import TyperArgument, TyperGroup, TyperOption

from opmkit.cli.console import print_bytes
from opmkit.cli.help_flags import is_long
from opmkit.cli.help_text import COLORED, NO_BREAK, PLAIN, Style, format_paragraphs, split_help, wrap

OPTIONS_PANEL = "Options"
SPECIAL_PANELS = frozenset(
    [
        "Compatibility with Go opm",
        "Container tools",
        "File-based catalogs",
        "OLM v1",
        "Other writers of the tag",
        "Pod of the catalog source",
        "Registry access",
    ]
)
"""Groups of flags that ``--help`` omits for commands with many flags."""
_MAX_WIDTH = 100
_MAX_TERM_WIDTH = 30
"""Longer names have their description on the next line."""


def print_help(ctx: Any, *, full: bool = False) -> None:
    """Print the help of the command of ``ctx``; if it has many flags, only ``full`` help has all of them."""
    print_bytes([current_help(ctx, full=full).encode(), b"\n"])


def current_help(ctx: Any, *, full: bool = False) -> str:
    """Return the help of the command of ``ctx`` for the terminal of this process, if stdout is one."""
    is_colored = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return format_help(ctx, get_terminal_size().columns, COLORED if is_colored else PLAIN, full=full)


def format_help(ctx: Any, width: int, style: Style = PLAIN, *, full: bool = False) -> str:
    """Return the help of the command of ``ctx``."""
    width = min(width, _MAX_WIDTH)
    summary, text = split_help(ctx.command.help or "")
    parameters = [parameter for parameter in ctx.command.get_params(ctx) if not parameter.hidden]
    arguments = [parameter for parameter in parameters if isinstance(parameter, TyperArgument)]
    usage = " ".join([ctx.command_path, "[OPTIONS]", *map(_usage, arguments)])
    lines = [*wrap(summary, width), "", f"{style.format_heading('Usage:')} {usage}"]
    if isinstance(ctx.command, TyperGroup):
        lines[-1] += " COMMAND"
    lines += format_paragraphs(text, width, style)
    if isinstance(ctx.command, TyperGroup):
        commands = [(name, command) for name, command in ctx.command.commands.items() if not command.hidden]
        rows = [(name, split_help(command.help or "")[0]) for name, command in commands]
        lines += _section("Commands", rows, width, style)
    lines += _section("Arguments", [(_name(argument), _description(argument)) for argument in arguments], width, style)
    panels = group_by_panel(parameters)
    omitted = [] if full or not is_long(parameters) else [panel for panel in panels if panel in SPECIAL_PANELS]
    for panel, options in panels.items():
        if panel not in omitted:
            lines += _section(panel, [(_term(option), _description(option)) for option in options], width, style)
    if omitted:
        lines += ["", *wrap(f"More flags with --help-all: {', '.join(omitted)}", width)]
    return "\n".join(lines)


def group_by_panel(parameters: Sequence[Any]) -> dict[str, list[TyperOption]]:
    """Return the options by group: those without a group first, then groups that are always shown."""
    panels: dict[str, list[TyperOption]] = {OPTIONS_PANEL: []}
    for parameter in parameters:
        if isinstance(parameter, TyperOption):
            panels.setdefault(parameter.rich_help_panel or OPTIONS_PANEL, []).append(parameter)
    return dict(sorted(panels.items(), key=lambda panel: panel[0] in SPECIAL_PANELS))


def _section(heading: str, rows: Sequence[tuple[str, str]], width: int, style: Style) -> Iterator[str]:
    """Yield a heading and a table of names and descriptions; nothing if there are no rows."""
    if not rows:
        return
    yield ""
    yield style.format_heading(f"{heading}:")
    column = 4 + max((len(term) for term, _ in rows if len(term) <= _MAX_TERM_WIDTH), default=_MAX_TERM_WIDTH)
    for term, description in rows:
        first, *others = wrap(description, width, " " * column) or [""]
        if len(term) + 4 <= column:
            yield f"  {style.format_name(term)}{first[len(term) + 2 :]}".rstrip()
        else:
            yield f"  {style.format_name(term)}"
            yield first
        yield from others


def _name(argument: TyperArgument) -> str:
    """Return the name of an argument, which its metavar may have in brackets or with an ellipsis."""
    name = (argument.metavar or argument.name.upper()).removesuffix("...")
    name = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    return name if argument.nargs == 1 else f"{name}..."


def _usage(argument: TyperArgument) -> str:
    return _name(argument) if argument.required else f"[{_name(argument)}]"


def _term(option: TyperOption) -> str:
    """Return the names of an option, and of its value."""
    short = [name for name in option.opts if not name.startswith("--")]
    long = [name for name in (*option.opts, *option.secondary_opts) if name.startswith("--")]
    names = ", ".join([*short, *long])
    names = names if short else f"    {names}"
    return names if option.is_flag else f"{names} {_value(option)}"


def _value(option: TyperOption) -> str:
    choices = option.type_descriptor.choices
    return option.metavar or "|".join(str(choice.value) for choice in choices or ()) or "VALUE"


def _description(parameter: Any) -> str:
    default = _default(parameter)
    suffix = f"[default: {default}]" if default else ""
    suffix = suffix.replace(" ", NO_BREAK) if len(suffix) <= _MAX_TERM_WIDTH else suffix
    return f"{parameter.help or ''} {suffix}".strip()


def _default(parameter: Any) -> str:
    """Return the text of a default, empty if it is not shown."""
    default = parameter.default
    if isinstance(default, Enum):
        return str(default.value)
    if isinstance(default, bool) or default is None or callable(default) or not parameter.show_default:
        return ""
    return ", ".join(map(str, default)) if isinstance(default, (list, tuple)) else str(default)
