"""``opm generate wrapper``: write a script that runs opmkit as operator-sdk or opm."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.output.console import print_line
from opmkit.cli.output.errors import UsageError
from opmkit.cli.parser.declaration import flag
from opmkit.cli.version import COMPAT_VARIABLE, OPERATOR_SDK_VARIABLE, parse_release

_COMMAND = "opm generate wrapper"
_FIRST_LINES = "#!/bin/sh\n# Runs opmkit. Written by opm generate wrapper.\n"
_PROGRAMS = {"operator-sdk": OPERATOR_SDK_VARIABLE, "opm": COMPAT_VARIABLE}
"""Programs that a wrapper runs opmkit as, and the variables of the releases that they report."""


def wrapper(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Script to write; its name begins with operator-sdk or opm")
    ],
    reported_version: str = flag(
        "",
        "Release that the script reports as its version; default: the one whose results opmkit has",
        metavar="VERSION",
    ),
) -> None:
    """Write a script that runs opmkit as operator-sdk or opm, for Makefiles that download these programs

    Many Makefiles download operator-sdk, or opm, to the path of the program that they run if its version is not the
    one that they require. Such a download replaces the script, but follows a link and overwrites opm. With
    --reported-version, the script reports the version that the Makefile requires, and nothing is downloaded.

    A rule such as '$(OPM): $(LOCALBIN)' downloads the program whenever its directory is newer than the script: run
    'make -o "$PWD/bin/opm"', or touch the script after other programs are installed there.

    [bold]Examples:[/]
      opm generate wrapper bin/operator-sdk
      opm generate wrapper bin/operator-sdk --reported-version v1.34.2
      opm generate wrapper bin/opm --reported-version v1.23.0
    """
    from opmkit.core.files import disk_errors, write_file

    name = next((name for name in _PROGRAMS if file.name.startswith(name)), None)
    if name is None:
        raise UsageError(f"{file}: unknown program: the name must begin with {' or '.join(_PROGRAMS)}", _COMMAND)
    program = _this_program()
    with disk_errors(file):
        _check_replaceable(file, program)
        write_file(file, _script(name, program, _parse_version(reported_version)), mode=0o755)
        os.utime(file)  # not older than the directory, on whose account make would replace it
    print_line(f"{file}: runs {program} as {name}")


def _this_program() -> Path:
    """Return the path of the installed ``opm``."""
    started = Path(sys.argv[0]).absolute()
    return started if started.is_file() else Path(sys.executable).with_name("opm")


def _parse_version(version: str) -> str:
    try:
        return version and parse_release(version)
    except ValueError:
        raise UsageError(f'--reported-version: invalid version "{version}": must be vX.Y.Z', _COMMAND) from None


def _check_replaceable(file: Path, program: Path) -> None:
    """Raise UsageError if a wrapper cannot replace ``file``, which must be another wrapper or a link to opm."""
    if file.parent.resolve() / file.name == program.parent.resolve() / program.name:
        raise UsageError(f"{file}: refusing to replace the program that the script runs", _COMMAND)
    is_link = file.is_symlink() and (not file.exists() or file.samefile(program))
    if not is_link and file.exists() and not _is_wrapper(file):
        raise UsageError(
            f"{file}: refusing to overwrite a file that is not a wrapper", _COMMAND, hint=f"remove {file} first"
        )


def _is_wrapper(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as content:
        return content.read(len(_FIRST_LINES)) == _FIRST_LINES.encode()


def _script(name: str, program: Path, version: str) -> bytes:
    """Return the script, which runs ``program`` as the program ``name``."""
    variable = _PROGRAMS[name]
    report = f"export {variable}=${{{variable}:-{version}}}\n" if version else ""
    subcommand = f" {name}" if name != "opm" else ""
    return os.fsencode(f'{_FIRST_LINES}{report}exec {shlex.quote(os.fspath(program))}{subcommand} "$@"\n')
