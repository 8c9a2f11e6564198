"""The ``opm`` command: its tree of commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from opmkit.cli.console import print_bytes, print_line, print_text
from opmkit.cli.errors import UsageProblem, as_advised, exit_code, print_error, print_traceback
from opmkit.cli.go_commands import GoGroup
from opmkit.cli.logs import configure_logs
from opmkit.cli.registration import command, group, listed
from opmkit.imagetools import interrupts
from opmkit.imagetools.errors import OpmkitError

HELP = """Build, publish and change OLM operator bundles and catalogs, without a container daemon.

Exit codes: 0 success; 1 any failure; 2 a bundle image is already in the index; 3 a bundle version is already in the
index; 4 another writer moved the tag in the meantime; 129, 130, 143 interrupted by SIGHUP, SIGINT or SIGTERM.
"""

_COMMANDS = "opmkit.cli.commands"
_TOP_LEVEL = {
    "init": "Print the document that says what a package is, to begin a file-based catalog with.",
    "migrate": "Convert an index to a directory with a file-based catalog, a file for each package.",
    "render": "Print bundles and catalogs as a file-based catalog.",
    "serve": "Serve a file-based catalog over gRPC, until the command is stopped.",
    "validate": "Tell everything that is wrong with a catalog, with file, line and remedy; nothing if all is well.",
}
"""The commands that are in no group, each the function of its name, and what they do."""
_WITH_ALPHA = ("graph", "templates")
"""The modules with commands of the group ``alpha`` that are in no group within it."""
_COMPLETIONS = (["__complete"], ["__completeNoDesc"])
"""The hidden commands that the completion scripts run."""


def build_app(words: Sequence[str] | None = None) -> typer.Typer:
    """The tree of commands; given the words of a command line, those that none of them names can't be run.

    A command line loads the commands of its group, not those of all others.
    """

    def commands_of(name: str, summary: str, module: str = "") -> typer.Typer:
        wanted = words is None or name in words
        commands = import_module(f"{_COMMANDS}.{module or name}").COMMANDS if wanted else ()
        return group(name, summary, commands, words=words)

    def alpha_commands() -> list[tuple[str, Any]]:
        wanted = words is None or "alpha" in words
        modules = [import_module(f"{_COMMANDS}.{name}") for name in _WITH_ALPHA] if wanted else []
        return [entry for module in modules for entry in module.ALPHA]

    app = typer.Typer(
        name="opm",
        help=HELP,
        cls=GoGroup,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    bundles = commands_of("bundle", "Generate, build, unpack, extract and validate bundles.")
    alpha = group("alpha", "The commands that the Go tool keeps under this name.", alpha_commands(), GoGroup, words)
    alpha.add_typer(bundles)
    alpha.add_typer(commands_of("list", "List the content of an index.", "alpha_list"))
    app.add_typer(
        commands_of("index", "Make, change, compare and draw indexes: images, catalogs' directories, databases.")
    )
    app.add_typer(commands_of("registry", "Make and change index databases."))
    app.add_typer(bundles)
    app.add_typer(commands_of("generate", "Generate what goes with file-based catalogs."))
    app.add_typer(commands_of("catalog", "Ask a running catalog, over gRPC, what it holds."))
    app.add_typer(commands_of("image", "Look after images: the embedded store, layouts, registries."))
    app.add_typer(alpha)
    for name, summary in _TOP_LEVEL.items():
        found = import_module(f"{_COMMANDS}.{name}") if words is None or name in words else None
        command(app, name, getattr(found, name) if found else listed, help=None if found else summary)
    command(app, "version", _version)
    command(app, "help", _help)
    command(app, "completion", _completion)
    return app


def run(arguments: list[str]) -> int:
    """Run one command line of ``opm`` and give its exit status; errors are printed, never raised."""
    if arguments[:1] in _COMPLETIONS:
        return _complete(arguments[0], arguments[1:])
    return run_app(build_app(arguments or None), "opm", arguments)


def run_app(app: typer.Typer, name: str, arguments: list[str], *, usage_status: int = 1) -> int:
    """Run one command line of a program; ``usage_status`` is what it exits with for a wrong one."""
    debug = "--debug" in arguments
    configure_logs(debug=debug)
    interrupts.begin_command()
    try:
        status = int(app(args=arguments, prog_name=name, standalone_mode=False) or 0)
        sys.stdout.flush()
    except (OpmkitError, typer.TyperException, OSError) as error:
        if debug:
            print_traceback(error)
        return interrupts.received_signal() or _report(error, usage_status)  # an error of what the signal broke off
    return status


def _report(error: OpmkitError | typer.TyperException | OSError, usage_status: int) -> int:
    if isinstance(error, BrokenPipeError):  # the reader of our output went away: nobody is there to be told
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    advised = as_advised(error)
    print_error(advised)
    return usage_status if isinstance(advised, UsageProblem) else exit_code(advised)


def _root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version of opmkit and exit.")] = False,
) -> None:
    if version:
        from opmkit._version import __version__

        print_line(f"opmkit {__version__}")
    elif ctx.invoked_subcommand is None:
        print_text(ctx.get_help())


def _version(ctx: typer.Context, ignored: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Print the version in the form that callers of the Go tool read.

    OpmVersion is the release of operator-registry that opmkit follows, or that of OPM_COMPAT_VERSION.

    [bold]Example:[/] opm version
    """
    from opmkit.cli.version import version_line

    print_line(version_line())


def _help(
    ctx: typer.Context,
    path: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="The command to explain.")] = None,
) -> None:
    """Explain a command: opm help COMMAND.

    [bold]Example:[/] opm help index add
    """
    run([*(path or ()), "--help"])


def _completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh, fish or powershell")],
    no_descriptions: Annotated[
        bool, typer.Option("--no-descriptions", help="Complete without descriptions of commands and flags.")
    ] = False,
) -> None:
    """Print the completion script of a shell.

    [bold]Example:[/] source <(opm completion bash)
    """
    from opmkit.cli.completion import SCRIPTS, script

    if shell not in SCRIPTS:
        raise UsageProblem(f'unknown shell "{shell}": one of bash, zsh, fish, powershell', "opm completion")
    print_bytes([script(shell, descriptions=not no_descriptions).encode()])


def _complete(command: str, words: Sequence[str]) -> int:
    """Print the completions of a command line for the script of a shell."""
    from opmkit.cli.completion import COMPLETE, complete, print_completion

    print_completion(complete(build_app, words), descriptions=command == COMPLETE)
    return 0
