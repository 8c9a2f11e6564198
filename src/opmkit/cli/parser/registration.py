"""Registration of commands and groups of commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, cast

import typer
from typer.main import get_command

from opmkit.cli.parser.declaration import expand_flag_groups
from opmkit.cli.parser.go_commands import GoCommand, GoGroup

_COMMANDS = "opmkit.cli.commands"
_CONTEXT = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True)
class Group:
    """A group of commands: the text of its help, and its commands and groups by name."""

    summary: str
    entries: Entries


Entries = Mapping[str, tuple[str, str] | Group]
"""Groups, and commands as ``module:function`` below ``opmkit.cli.commands`` with the first line of the help."""


def add_command(app: typer.Typer, name: str, function: Callable[..., Any], **settings: Any) -> None:
    """Register ``function`` as the command ``name``; its docstring is the help."""
    app.command(name, cls=GoCommand, context_settings=_CONTEXT, **settings)(expand_flag_groups(function))


def build_group(name: str, group: Group, callback: Callable[..., Any] | None = None) -> GoGroup:
    """Return a group whose commands are imported when they are looked up with ``get_command``.

    Args:
        name: name of the group.
        group: text of the help, and commands.
        callback: function that runs before the commands; by default, it prints the help if no command is given.
    """
    app = typer.Typer(
        name=name,
        help=group.summary,
        cls=GoGroup,
        add_completion=False,
        context_settings=_CONTEXT,
    )
    app.callback(invoke_without_command=True)(expand_flag_groups(callback or _show_help))
    built = cast("GoGroup", get_command(app))
    for entry_name, entry in group.entries.items():
        if isinstance(entry, Group):
            built.add_lazy(GoGroup(name=entry_name, help=entry.summary), partial(build_group, entry_name, entry))
        else:
            target, summary = entry
            built.add_lazy(GoCommand(name=entry_name, help=summary), partial(_import_command, entry_name, target))
    return built


def _import_command(name: str, target: str) -> Any:
    module, _, function = target.partition(":")
    app = typer.Typer(add_completion=False)
    add_command(app, name, getattr(import_module(f"{_COMMANDS}.{module}"), function))
    return get_command(app)


def _show_help(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        from opmkit.cli.help.page import print_help

        print_help(ctx)
