"""Registration of commands and groups of commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import getdoc
from typing import Any

import typer

from opmkit.cli.flag_groups import expand_flag_groups
from opmkit.cli.go_commands import GoCommand, LenientGoGroup


def add_command(app: typer.Typer, name: str, function: Callable[..., Any], **settings: Any) -> None:
    """Register ``function`` as the command ``name``; its docstring is the help."""
    context = {"help_option_names": ["-h", "--help"]}
    app.command(name, cls=GoCommand, context_settings=context, **settings)(expand_flag_groups(function))


def create_group(
    name: str,
    summary: str,
    commands: Sequence[tuple[str, Callable[..., Any] | typer.Typer]],
    cls: type[Any] | None = None,
    words: Sequence[str] | None = None,
) -> typer.Typer:
    """Return a group of commands and of other groups, which prints its help if no command is given.

    If ``words``, those of a command line, name commands of the group, the others are registered as placeholders with
    only their help: to register all of them takes longer than most commands run.
    """
    app = typer.Typer(name=name, help=summary, cls=cls or LenientGoGroup, add_completion=False)
    app.callback(invoke_without_command=True)(_show_help)
    named = {entry_name for entry_name, _ in commands}.intersection(words or ())
    for entry_name, entry in commands:
        if isinstance(entry, typer.Typer):
            app.add_typer(entry, name=entry_name)
        elif named and entry_name not in named:
            add_command(app, entry_name, placeholder, help=getdoc(entry))
        else:
            add_command(app, entry_name, entry)
    return app


def placeholder() -> None:
    """Do nothing: stands for a command in a list of commands."""


def _show_help(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        from opmkit.cli.help_page import print_help

        print_help(ctx)
