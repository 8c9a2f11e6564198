"""Content of help pages, which terminals, manual pages and the documentation site lay out in their own ways."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from inspect import cleandoc
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from typer.core import TyperArgument, TyperGroup, TyperOption

from opmkit.cli.help.command_tree import aliases
from opmkit.cli.help.panels import SPECIAL_PANELS

OPTIONS_PANEL = "Options"


class HelpEntry(Struct, frozen=True):
    """A flag, an argument or a command of a help page.

    ``name`` is what to type, as in ``--output`` or ``[IMAGE...]``; flags may have a ``short`` name, such as ``-o``, the
    placeholder of their ``value``, and the text of their ``default``.
    """

    name: str
    text: str
    short: str = ""
    value: str = ""
    default: str = ""


class HelpContent(Struct, frozen=True):
    """The content of the help page of one command.

    ``description`` consists of paragraphs without the examples, whose indented lines are printed as they are. Each
    example is one command line. ``panels`` are the flags by group, without hidden ones.
    """

    path: str
    usage: str
    summary: str
    description: str
    examples: tuple[str, ...]
    commands: tuple[HelpEntry, ...]
    arguments: tuple[HelpEntry, ...]
    panels: dict[str, tuple[HelpEntry, ...]]


def describe_command(ctx: Any) -> HelpContent:
    """Return the content of the help page of the command of ``ctx``."""
    path = ctx.command_path
    summary, text = split_help(ctx.command.help or "")
    description, examples = parse_examples(text)
    parameters = [parameter for parameter in ctx.command.get_params(ctx) if not parameter.hidden]
    arguments = [parameter for parameter in parameters if isinstance(parameter, TyperArgument)]
    usage = " ".join([path, "[OPTIONS]", *map(_usage, arguments)])
    commands = ctx.command.commands if isinstance(ctx.command, TyperGroup) else {}
    panels = group_by_panel(parameters).items()
    return HelpContent(
        path,
        f"{usage} COMMAND" if isinstance(ctx.command, TyperGroup) else usage,
        summary,
        description,
        tuple(_rename(example, path) for example in examples),
        tuple(
            HelpEntry(name, split_help(command.help or "")[0])
            for name, command in commands.items()
            if not command.hidden and " " not in name  # the help of 'opm mirror' names 'opm mirror delete'
        ),
        tuple(_describe_argument(argument) for argument in arguments),
        {panel: tuple(map(_describe_option, options)) for panel, options in panels},
    )


def list_commands(command: TyperGroup, path: str) -> Iterator[HelpEntry]:
    """Yield the commands of a group and of the groups in it, with their paths in the group.

    Groups that are another path of a group are listed as one entry.
    """
    for name, child in command.commands.items():
        child_path = f"{path} {name}"
        if isinstance(child, TyperGroup) and not child.hidden and canonical_path(child_path) == child_path:
            for entry in list_commands(child, child_path):
                yield replace(entry, name=f"{name} {entry.name}")
        elif not child.hidden:
            yield HelpEntry(name, split_help(child.help or "")[0])


def canonical_path(path: str) -> str:
    """Return the path of a command that has ``path`` as another path; ``path`` itself if it is not an alias."""
    for alias, other in aliases().items():
        if f"{path} ".startswith(f"{alias} "):
            return canonical_path(other + path.removeprefix(alias))
    return path


def group_by_panel(parameters: Sequence[Any]) -> dict[str, list[TyperOption]]:
    """Return the options by group: those without a group first, then groups that are always shown."""
    panels: dict[str, list[TyperOption]] = {OPTIONS_PANEL: []}
    for parameter in parameters:
        if isinstance(parameter, TyperOption):
            panels.setdefault(parameter.rich_help_panel or OPTIONS_PANEL, []).append(parameter)
    return dict(sorted(panels.items(), key=lambda panel: panel[0] in SPECIAL_PANELS))


def _rename(example: str, path: str) -> str:
    """Return an example with the ``path`` under which its command is described."""
    return re.sub(rf"\b{re.escape(canonical_path(path))}\b", path, example)


def _usage(argument: TyperArgument) -> str:
    return _name(argument) if argument.required else f"[{_name(argument)}]"


def _name(argument: TyperArgument) -> str:
    """Return the name of an argument, which its metavar may have in brackets or with an ellipsis."""
    name = (argument.metavar or argument.name.upper()).removesuffix("...")
    name = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    return name if argument.nargs == 1 else f"{name}..."


def _describe_argument(argument: TyperArgument) -> HelpEntry:
    return HelpEntry(_name(argument), argument.help or "", default=_default(argument))


def _describe_option(option: TyperOption) -> HelpEntry:
    short = [name for name in option.opts if not name.startswith("--")]
    long = [name for name in (*option.opts, *option.secondary_opts) if name.startswith("--")]
    value = "" if option.is_flag else _value(option)
    return HelpEntry(", ".join(long), option.help or "", ", ".join(short), value, _default(option))


def _value(option: TyperOption) -> str:
    choices = option.type_descriptor.choices
    return option.metavar or "|".join(str(choice.value) for choice in choices or ()) or "VALUE"


def _default(parameter: Any) -> str:
    """Return the text of a default, empty if it is not shown."""
    default = parameter.default
    if isinstance(default, Enum):
        return str(default.value)
    if isinstance(default, bool) or default is None or callable(default) or not parameter.show_default:
        return ""
    return ", ".join(map(str, default)) if isinstance(default, (list, tuple)) else str(default)


_HEADING = re.compile(r"^\[bold\]Examples?:\[/\](.*)", re.MULTILINE)
_WORD = r"(?:[^\s\"']|\"[^\"]*\"|'[^']*')+"
_WORDS = re.compile(rf"(?:-\S+|[|>]+|&&) (?!-){_WORD}|{_WORD}")
"""Words of a command line; flags and operators with the word behind them."""
_INDENT = "  "
NO_BREAK = "\N{NO-BREAK SPACE}"
"""A space at which ``wrap`` breaks no line."""


class Style(Struct, frozen=True):
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
    """Yield the lines of command lines; long command lines are continued with backslashes as in a shell."""
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
