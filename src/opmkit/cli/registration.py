"""Commands and groups of commands, registered with Go's flag rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import getdoc
from typing import Any

import typer

from opmkit.cli.console import print_text
from opmkit.cli.go_commands import GoCommand, LenientGoGroup
from opmkit.cli.registry_flags import takes_groups


def command(app: typer.Typer, name: str, function: Callable[..., Any], **settings: Any) -> None:
    """Register ``function`` as the command ``name`` with Go's flag rules; its docstring is the help."""
    context = {"help_option_names": ["-h", "--help"]}
    app.command(name, cls=GoCommand, context_settings=context, **settings)(takes_groups(function))


def group(
    name: str,
    summary: str,
    commands: Sequence[tuple[str, Callable[..., Any] | typer.Typer]],
    cls: type[Any] | None = None,
    words: Sequence[str] | None = None,
) -> typer.Typer:
    """A group of commands, and of groups within it; alone it shows its help.

    Given the words of a command line, if some name commands of the group, the others are there to be listed only: to
    make all of them takes longer than most of them run.
    """
    app = typer.Typer(name=name, help=summary, cls=cls or LenientGoGroup, add_completion=False)
    app.callback(invoke_without_command=True)(_show_help)
    named = {entry_name for entry_name, _ in commands}.intersection(words or ())
    for entry_name, entry in commands:
        if isinstance(entry, typer.Typer):
            app.add_typer(entry, name=entry_name)
        elif named and entry_name not in named:
            command(app, entry_name, listed, help=getdoc(entry))
        else:
            command(app, entry_name, entry)
    return app


def listed() -> None:
    """Stand for a command in a list of commands."""


def _show_help(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        print_text(ctx.get_help())
