"""Registration of commands and groups of commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, cast

import typer
from typer.main import get_command

from opmkit.cli.help.command_tree import list_entries
from opmkit.cli.parser.declaration import expand_flag_groups
from opmkit.cli.parser.go_commands import GoCommand, GoGroup

_COMMANDS = "opmkit.cli.commands"
_CONTEXT = {"help_option_names": ["-h", "--help"]}


_DATABASES = (
    "DEPRECATION NOTICE: operator-registry has deprecated index databases (SQLite); 'opm migrate' converts them to "
    "file-based catalogs"
)
_DESCRIPTIONS = {"opm index": f"{_DATABASES}, which these commands support as well.", "opm registry": f"{_DATABASES}."}
"""Help of groups below the summary, with words of Go opm's."""


def add_command(app: typer.Typer, name: str, function: Callable[..., Any], **settings: Any) -> None:
    """Register ``function`` as the command ``name``; its docstring is the help."""
    app.command(name, cls=GoCommand, context_settings=_CONTEXT, **settings)(expand_flag_groups(function))


def build_group(path: str, summary: str, callback: Callable[..., Any] | None = None) -> GoGroup:
    """Return a group whose commands are imported when they are looked up with ``get_command``.

    Args:
        path: name of the program, or canonical path of the group.
        summary: text of the help.
        callback: function that runs before the commands; by default, it prints the help if no command is given.
    """
    text = "\n\n".join(filter(None, (summary, _DESCRIPTIONS.get(path))))
    app = typer.Typer(
        name=path.rpartition(" ")[2], help=text, cls=GoGroup, add_completion=False, context_settings=_CONTEXT
    )
    app.callback(invoke_without_command=True)(expand_flag_groups(callback or _show_help))
    built = cast("GoGroup", get_command(app))
    for name, canonical, target, first_line in list_entries(path):
        if target:
            built.add_lazy(GoCommand(name=name, help=first_line), partial(_import_command, name, target))
        else:
            built.add_lazy(GoGroup(name=name, help=first_line), partial(build_group, canonical, first_line))
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
