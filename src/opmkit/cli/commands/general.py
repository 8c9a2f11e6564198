"""``opm version``, ``operator-sdk version``, ``opm help`` and ``opm completion``."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from opmkit.cli.output.console import print_bytes, print_line
from opmkit.cli.output.errors import UsageError, print_hint, print_warning
from opmkit.cli.parser.declaration import argument, flag


def version(ctx: typer.Context, ignored: list[str] | None = argument(None, "")) -> None:
    """Print the version in the format of Go opm

    OpmVersion is the release of operator-registry that opmkit implements, or that of OPM_COMPAT or OPM_COMPAT_VERSION.

    [bold]Example:[/] opm version
    """
    from opmkit.cli.version import version_line

    print_line(version_line())


def operator_sdk_version(ctx: typer.Context, ignored: list[str] | None = argument(None, "")) -> None:
    """Print the version in the format of operator-sdk

    It is the release whose results opmkit has, or that of OPM_OPERATOR_SDK_VERSION.

    [bold]Example:[/] operator-sdk version
    """
    from opmkit.cli.version import operator_sdk_version_line

    print_line(operator_sdk_version_line())
    _warn_of_link(Path(sys.argv[0]))


def _warn_of_link(program: Path) -> None:
    """Print a warning if ``program`` is a link to opm, since programs that write to the link overwrite opm.

    Makefiles download operator-sdk to its path if they require another version than this one.
    """
    is_link = program.is_symlink() or (program.is_file() and program.stat().st_nlink > 1)
    if is_link and program.name.startswith("operator-sdk"):  # wrappers run opm, which may be a link itself
        print_warning(f"{program}: link to opm: downloading operator-sdk to this path overwrites opm")
        print_hint("replace the link by a script: 'opm generate wrapper FILE'")


def show_help(
    ctx: typer.Context,
    path: list[str] | None = argument(None, "Command to show the help of", metavar="[COMMAND]..."),
    full: bool = flag(False, "Show all flags, and the commands of all groups", "--all", "--help-all", "-a"),
) -> None:
    """Show the help of a command

    [bold]Examples:[/]
      opm help index add
      opm help index add --all
      opm help --all
    """
    from opmkit.cli.main import run

    raise typer.Exit(run([*(path or ()), "--help-all" if full else "--help"]))


def completion(
    ctx: typer.Context,
    shell: str = argument("", "bash, zsh, fish or powershell", metavar="[SHELL]"),
    no_descriptions: bool = flag(False, "Omit the descriptions of commands and flags"),
) -> None:
    """Print the completion script of a shell

    [bold]Example:[/] source <(opm completion bash)
    """
    from opmkit.cli.help.completion import SCRIPTS, completion_script
    from opmkit.cli.help.page import print_help

    if not shell:
        print_help(ctx)
        return
    if shell not in SCRIPTS:
        raise UsageError(f'unknown shell "{shell}": one of bash, zsh, fish, powershell', "opm completion")
    print_bytes([completion_script(shell, descriptions=not no_descriptions).encode()])
