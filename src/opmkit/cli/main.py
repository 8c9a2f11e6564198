"""The ``opm`` command: its commands, and the conversion of errors to messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from opmkit.cli.console import print_bytes, print_line
from opmkit.cli.errors import UsageError, exit_code, print_error, print_traceback, to_opmkit_error
from opmkit.cli.go_commands import GoGroup
from opmkit.cli.logs import configure_logs
from opmkit.cli.registration import add_command, create_group, placeholder
from opmkit.imagetools import interrupts
from opmkit.imagetools.errors import OpmkitError

HELP = """Build, publish and change OLM operator bundles and catalogs, without a container daemon

Exit codes:
  0 success
  1 failure
  2 a bundle image is already in the index
  3 a bundle version is already in the index
  4 another writer moved the tag
  5 some images could not be mirrored
  129, 130, 143 interrupted by SIGHUP, SIGINT or SIGTERM
"""

_COMMANDS = "opmkit.cli.commands"
_TOP_LEVEL = {
    "cleanup": "Remove an operator from a cluster, with everything that opm run created",
    "init": "Create the first document of a package in a file-based catalog",
    "migrate": "Convert an index to a directory with a file-based catalog, one file per package",
    "mirror": "Copy an index with its bundle images and all related images to a registry, a directory or an archive",
    "render": "Print bundles and indexes as a file-based catalog",
    "serve": "Serve a file-based catalog over gRPC",
    "validate": "Validate a catalog and report each finding with file, line and a hint",
}
"""First lines of the help of commands outside groups; each is a function in the module of its name."""
_ALPHA_MODULES = ("graph", "templates")
"""Modules with commands of the group ``alpha``."""
_DEBUG_FLAGS = frozenset(("--debug", "--verbose"))
_COMPLETION_COMMANDS = (["__complete"], ["__completeNoDesc"])
"""Hidden commands that the completion scripts run."""


def build_app(words: Sequence[str] | None = None) -> typer.Typer:
    """Return the tree of commands.

    Importing all commands takes longer than most of them run. With ``words``, those of a command line, only the modules
    of commands that they may name are imported; the other commands have just a name and help.
    """

    def import_group(name: str, summary: str, module: str = "") -> typer.Typer:
        is_named = words is None or name in words
        commands = import_module(f"{_COMMANDS}.{module or name}").COMMANDS if is_named else ()
        return create_group(name, summary, commands, words=words)

    def import_alpha() -> list[tuple[str, Any]]:
        is_named = words is None or "alpha" in words
        modules = [import_module(f"{_COMMANDS}.{name}") for name in _ALPHA_MODULES] if is_named else []
        return [entry for module in modules for entry in module.ALPHA]

    app = typer.Typer(
        name="opm",
        help=HELP,
        cls=GoGroup,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    bundle = import_group("bundle", "Generate, build, unpack, extract and validate bundles")
    alpha = create_group("alpha", "Commands that are alpha in operator-registry", import_alpha(), GoGroup, words)
    alpha.add_typer(bundle)
    alpha.add_typer(import_group("list", "List the contents of an index", "alpha_list"))
    app.add_typer(import_group("index", "Create, change, compare and draw indexes: images, directories and databases"))
    app.add_typer(import_group("registry", "Create, change and serve index databases"))
    app.add_typer(bundle)
    app.add_typer(import_group("generate", "Generate files for file-based catalogs and operator projects"))
    app.add_typer(import_group("catalog", "Query a running catalog over gRPC"))
    app.add_typer(import_group("image", "Manage images in the embedded image store, layouts and registries"))
    app.add_typer(import_group("olm", "Install, check and remove the Operator Lifecycle Manager (OLM) of a cluster"))
    app.add_typer(import_group("run", "Run operators in a cluster with OLM"))
    app.add_typer(import_group("template", "Edit and render catalog templates"))
    app.add_typer(alpha)
    for name, summary in _TOP_LEVEL.items():
        module = import_module(f"{_COMMANDS}.{name}") if words is None or name in words else None
        add_command(app, name, getattr(module, name) if module else placeholder, help=None if module else summary)
    add_command(app, "version", _version)
    add_command(app, "help", _help)
    add_command(app, "completion", _completion)
    return app


def run(arguments: list[str]) -> int:
    """Run one command line of ``opm`` and return its exit code; errors are printed, never raised."""
    if arguments[:1] in _COMPLETION_COMMANDS:
        return _complete(arguments[0], arguments[1:])
    needs_all = "--help-all" in arguments  # lists the commands of all groups
    return run_app(build_app(None if needs_all else arguments or None), "opm", arguments)


def run_app(app: typer.Typer, name: str, arguments: list[str], *, usage_error_code: int = 1) -> int:
    """Run one command line of a program and return its exit code, ``usage_error_code`` for an invalid one."""
    debug = not _DEBUG_FLAGS.isdisjoint(arguments)
    configure_logs(debug=debug)
    interrupts.begin_command()
    try:
        code = int(app(args=arguments, prog_name=name, standalone_mode=False) or 0)
        sys.stdout.flush()
    except (OpmkitError, typer.TyperException, OSError) as error:
        if debug:
            print_traceback(error)
        return interrupts.received_signal() or _report(
            error, usage_error_code
        )  # a signal may be the cause of the error
    return code


def _report(error: OpmkitError | typer.TyperException | OSError, usage_error_code: int) -> int:
    if isinstance(error, BrokenPipeError):  # the reader of stdout has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    reported = to_opmkit_error(error)
    print_error(reported)
    return usage_error_code if isinstance(reported, UsageError) else exit_code(reported)


def _root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version of opmkit")] = False,
) -> None:
    if version:
        from opmkit._version import __version__

        print_line(f"opmkit {__version__}")
    elif ctx.invoked_subcommand is None:
        from opmkit.cli.help_page import print_help

        print_help(ctx)


def _version(ctx: typer.Context, ignored: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Print the version in the format of Go opm

    OpmVersion is the release of operator-registry that opmkit implements, or that of OPM_COMPAT or OPM_COMPAT_VERSION.

    [bold]Example:[/] opm version
    """
    from opmkit.cli.version import version_line

    print_line(version_line())


def _help(
    ctx: typer.Context,
    path: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Command to show the help of")
    ] = None,
    full: Annotated[
        bool, typer.Option("--all", "--help-all", "-a", help="Show all flags, and the commands of all groups")
    ] = False,
) -> None:
    """Show the help of a command

    [bold]Examples:[/]

      opm help index add

      opm help index add --all

      opm help --all
    """
    run([*(path or ()), "--help-all" if full else "--help"])


def _completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh, fish or powershell")],
    no_descriptions: Annotated[
        bool, typer.Option("--no-descriptions", help="Omit the descriptions of commands and flags")
    ] = False,
) -> None:
    """Print the completion script of a shell

    [bold]Example:[/] source <(opm completion bash)
    """
    from opmkit.cli.completion import SCRIPTS, completion_script

    if shell not in SCRIPTS:
        raise UsageError(f'unknown shell "{shell}": one of bash, zsh, fish, powershell', "opm completion")
    print_bytes([completion_script(shell, descriptions=not no_descriptions).encode()])


def _complete(command: str, words: Sequence[str]) -> int:
    """Print the completions of a command line for a completion script."""
    from opmkit.cli.completion import COMPLETE, complete, print_completion

    print_completion(complete(build_app, words), descriptions=command == COMPLETE)
    return 0
