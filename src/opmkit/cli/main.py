"""The ``opm`` command: its commands, and the conversion of errors to messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer

from opmkit.cli.output.console import print_line
from opmkit.cli.output.errors import UsageError, exit_code, print_error, print_traceback, to_opmkit_error
from opmkit.cli.output.logs import configure_logs
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import GoGroup
from opmkit.cli.parser.registration import build_group
from opmkit.core import interrupts

HELP = """Build, publish and change OLM operator bundles and catalogs, without a container daemon

Exit codes:
  0 success
  1 failure
  2, 3 a bundle image or a bundle version is already in the index
  4 another writer moved the tag
  5 some images could not be mirrored
  129, 130, 143 interrupted by SIGHUP, SIGINT or SIGTERM

[bold]Examples:[/]
  opm index add -b quay.io/me/lagoon:0.1.0 -t quay.io/me/catalog:1 --push
  opm serve ./catalog
"""

_DEBUG_FLAGS = frozenset(("--debug", "--verbose"))
_COMPLETION_COMMANDS = (["__complete"], ["__completeNoDesc"])
"""Hidden commands that the completion scripts run."""


def build_app(*, load_all: bool = True) -> GoGroup:
    """Return the tree of commands.

    Importing all commands takes longer than most of them run. Unless ``load_all``, ``get_command`` of a group imports
    a command, and the commands that have not been looked up have just a name and the first line of their help.
    """
    app = build_group("opm", HELP, _root)
    if load_all:
        app.load_all()
    return app


def run(arguments: list[str]) -> int:
    """Run one command line of ``opm`` and return its exit code; errors are printed, never raised."""
    if arguments[:1] in _COMPLETION_COMMANDS:
        return _complete(arguments[0], arguments[1:])
    return run_app(build_app(load_all="--help-all" in arguments), "opm", arguments)  # lists the commands of all groups


def run_app(app: Callable[..., Any], name: str, arguments: list[str], *, usage_error_code: int = 1) -> int:
    """Run one command line of a program and return its exit code, ``usage_error_code`` for an invalid one."""
    debug = not _DEBUG_FLAGS.isdisjoint(arguments)
    configure_logs(debug=debug)
    interrupts.begin_command()
    try:
        code = int(app(args=arguments, prog_name=name, standalone_mode=False) or 0)
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - unexpected errors are reported, too
        if debug:
            print_traceback(error)
        return interrupts.received_signal() or _report(
            error, usage_error_code
        )  # a signal may be the cause of the error
    return code


def _report(error: Exception, usage_error_code: int) -> int:
    if isinstance(error, BrokenPipeError):  # the reader of stdout has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    reported = to_opmkit_error(error)
    print_error(reported)
    return usage_error_code if isinstance(reported, UsageError) else exit_code(reported)


def _root(ctx: typer.Context, version: bool = flag(False, "Print the version of opmkit")) -> None:
    if version:
        from opmkit.cli.version import own_version_line

        print_line(own_version_line())
    elif ctx.invoked_subcommand is None:
        from opmkit.cli.help.page import print_help

        print_help(ctx)


def _complete(command: str, words: Sequence[str]) -> int:
    """Print the completions of a command line for a completion script."""
    from opmkit.cli.help.completion import COMPLETE, complete, print_completion

    print_completion(complete(build_app(load_all=False), words), descriptions=command == COMPLETE)
    return 0
