"""The companion programs: small commands of their own beside ``opm``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from opmkit.cli.changes import Database, Permissive, Told, tell_changed
from opmkit.cli.main import run_app
from opmkit.cli.serving import Serving, SkipMigrate
from opmkit.cli.tree import command

USAGE_STATUS = 2
"""What the Go companions exit with for a wrong command line."""


def _initialize(
    manifests: Annotated[
        Path, typer.Option("--manifests", "-m", metavar="DIR", help="Directory of package or bundle directories.")
    ] = Path("manifests"),
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Database file to make.")] = Path(
        "bundles.db"
    ),
    permissive: Permissive = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be in it; make no file.")] = False,
    debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False,
) -> None:
    """Make an index database from directories of package manifests or bundles.

    [bold]Example:[/] initializer --manifests deploy/olm-catalog --output bundles.db
    """
    from opmkit.index.change import change_database, initializing

    result = change_database(output, initializing(manifests, permissive=permissive), dry_run=dry_run)
    tell_changed(result, Told(dry_run=dry_run))


def _serve(
    database: Database = Path("bundles.db"),
    skip_migrate: SkipMigrate = False,
    *,
    serving: Serving,
    debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False,
) -> None:
    """Serve an index database over gRPC, until the program is stopped.

    [bold]Example:[/] registry-server --database bundles.db --port 50051
    """
    from opmkit.index.server.serve import serve_database

    settings = serving.settings(debug=debug)
    with serving.logs(debug=debug):
        serve_database(database, settings, migrate=not skip_migrate)


def initializer() -> NoReturn:
    """The program ``initializer``."""
    sys.exit(run_initializer(sys.argv[1:]))


def run_initializer(arguments: list[str]) -> int:
    """Run one command line of ``initializer``, and give its exit status."""
    app = typer.Typer(add_completion=False)
    command(app, "initializer", _initialize)
    return run_app(app, "initializer", arguments, usage_status=USAGE_STATUS)


def registry_server() -> NoReturn:
    """The program ``registry-server``."""
    sys.exit(run_registry_server(sys.argv[1:]))


def run_registry_server(arguments: list[str]) -> int:
    """Run one command line of ``registry-server``, and give its exit status."""
    app = typer.Typer(add_completion=False)
    command(app, "registry-server", _serve)
    return run_app(app, "registry-server", arguments, usage_status=USAGE_STATUS)
