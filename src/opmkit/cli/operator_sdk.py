"""The program operator-sdk, with the commands that opmkit implements."""

from __future__ import annotations

from typing import Any

import typer

from opmkit.cli.main import run_app
from opmkit.cli.output.console import print_line
from opmkit.cli.output.errors import UsageError
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.registration import build_group

NAME = "operator-sdk"
HELP = """Generate and validate bundles, and run operators in a cluster

This is opmkit, with the commands, defaults and results of operator-sdk. Commands that scaffold and test projects
require operator-sdk itself.
"""
_UNSUPPORTED = (
    *(("alpha",), ("completion",), ("create",), ("delete",), ("edit",), ("init",), ("pkgman-to-bundle",)),
    *(("scorecard",), ("generate", "packagemanifests")),
)
"""Commands that only operator-sdk itself has."""


def run(arguments: list[str]) -> int:
    """Run one command line of ``operator-sdk``, or of ``opm operator-sdk``, and return its exit code."""
    return run_app(_run, NAME, arguments[1:] if arguments[:1] == [NAME] else arguments)


def _run(args: list[str], **settings: Any) -> Any:
    _check_supported(args)
    app = build_group(NAME, HELP, _root)
    if "--help-all" in args:
        app.load_all()
    return app(args=[*args[1:], "--help"] if args[:1] == ["help"] else args, **settings)


def _check_supported(args: list[str]) -> None:
    """Raise UsageError for a command that only operator-sdk itself has."""
    words = tuple(word for word in args if not word.startswith("-"))
    for path in _UNSUPPORTED:
        if words[: len(path)] == path:
            raise UsageError(
                f"{' '.join((NAME, *path))}: not supported by opmkit, which runs here as operator-sdk",
                NAME,
                hint="install operator-sdk from https://sdk.operatorframework.io, and run it by its path",
            )


def _root(ctx: typer.Context, version: bool = flag(False, "Print the version")) -> None:
    if version:
        from opmkit.cli.version import operator_sdk_version_line

        print_line(operator_sdk_version_line())
    elif ctx.invoked_subcommand is None:
        from opmkit.cli.help.page import print_help

        print_help(ctx)
