"""Content of help pages, which terminals, manual pages and the documentation site lay out in their own ways."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from typer.core import TyperArgument, TyperGroup, TyperOption

from opmkit.cli.help_flags import SPECIAL_PANELS
from opmkit.cli.help_text import parse_examples, split_help

ALIASES = {
    "opm alpha bundle": "opm bundle",
    "opm bundle push": "opm image push",
    "opm image cp": "opm image copy",
    "opm index pin": "opm bundle pin",
    "opm run pm": "opm run packagemanifests",
}
"""Paths of commands and groups, by the other paths that they have."""
OPTIONS_PANEL = "Options"


@dataclass(frozen=True, slots=True)
class Entry:
    """A flag, an argument or a command of a help page.

    ``name`` is what to type, as in ``--output`` or ``[IMAGE...]``; flags may have a ``short`` name, such as ``-o``, the
    placeholder of their ``value``, and the text of their ``default``.
    """

    name: str
    text: str
    short: str = ""
    value: str = ""
    default: str = ""


@dataclass(frozen=True, slots=True)
class HelpContent:
    """The content of the help page of one command.

    ``description`` consists of paragraphs without the examples, whose indented lines are printed as they are. Each
    example is one command line. ``panels`` are the flags by group, without hidden ones.
    """

    path: str
    usage: str
    summary: str
    description: str
    examples: tuple[str, ...]
    commands: tuple[Entry, ...]
    arguments: tuple[Entry, ...]
    panels: dict[str, tuple[Entry, ...]]


def describe_command(ctx: Any) -> HelpContent:
    """Return the content of the help page of the command of ``ctx``."""
    path = ctx.command_path
    summary, text = split_help(ctx.command.help or "")
    description, examples = parse_examples(text)
    parameters = [parameter for parameter in ctx.command.get_params(ctx) if not parameter.hidden]
    arguments = [parameter for parameter in parameters if isinstance(parameter, TyperArgument)]
    usage = " ".join([path, "[OPTIONS]", *map(_usage, arguments)])
    commands = ctx.command.commands.items() if isinstance(ctx.command, TyperGroup) else ()
    panels = group_by_panel(parameters).items()
    return HelpContent(
        path,
        f"{usage} COMMAND" if isinstance(ctx.command, TyperGroup) else usage,
        summary,
        description,
        tuple(_rename(example, path) for example in examples),
        tuple(Entry(name, split_help(command.help or "")[0]) for name, command in commands if not command.hidden),
        tuple(_describe_argument(argument) for argument in arguments),
        {panel: tuple(map(_describe_option, options)) for panel, options in panels},
    )


def list_commands(command: TyperGroup, path: str) -> Iterator[Entry]:
    """Yield the commands of a group and of the groups in it, with their paths in the group.

    Groups that are another path of a group are listed as one entry.
    """
    for name, child in command.commands.items():
        child_path = f"{path} {name}"
        if isinstance(child, TyperGroup) and not child.hidden and canonical_path(child_path) == child_path:
            for entry in list_commands(child, child_path):
                yield replace(entry, name=f"{name} {entry.name}")
        elif not child.hidden:
            yield Entry(name, split_help(child.help or "")[0])


def canonical_path(path: str) -> str:
    """Return the path of a command that has ``path`` as another path; ``path`` itself if it is not an alias."""
    canonical = path
    for alias, other in ALIASES.items():
        if f"{canonical} ".startswith(f"{alias} "):
            canonical = other + canonical.removeprefix(alias)
    return canonical


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


def _describe_argument(argument: TyperArgument) -> Entry:
    return Entry(_name(argument), argument.help or "", default=_default(argument))


def _describe_option(option: TyperOption) -> Entry:
    short = [name for name in option.opts if not name.startswith("--")]
    long = [name for name in (*option.opts, *option.secondary_opts) if name.startswith("--")]
    value = "" if option.is_flag else _value(option)
    return Entry(", ".join(long), option.help or "", ", ".join(short), value, _default(option))


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
