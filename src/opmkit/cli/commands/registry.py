"""``opm registry``: make and change index databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.console import OutputFormat, progress
from opmkit.cli.errors import print_to_stderr
from opmkit.cli.go_commands import require_flags
from opmkit.cli.index_flags import (
    Adding,
    AllowPackageRemoval,
    Database,
    Packages,
    Permissive,
    PullTool,
    Told,
    tell_changed,
)
from opmkit.cli.registry_flags import Connection
from opmkit.cli.server_flags import INFINITE, Serving, SkipMigrate

BundleImages = Annotated[
    list[str] | None, typer.Option("--bundle-images", "-b", metavar="IMAGE,...", help="Bundle images.")
]
DEFAULT_DATABASE = Path("bundles.db")


def add(
    *,
    bundle_images: BundleImages = None,
    database: Database = DEFAULT_DATABASE,
    container_tool: PullTool = "none",
    adding_flags: Adding,
    told: Told,
    connection: Connection,
) -> None:
    """Add bundles to an index database; the file is made where there is none.

    Bundles are pulled in parallel. The file is replaced when all went well, and stays as it is otherwise.

    [bold]Examples:[/]

      opm registry add --database index.db --bundle-images quay.io/me/lagoon:0.1.0,quay.io/me/lagoon:0.2.0

      opm registry add -d index.db -b ./lagoon/0.1.0,./lagoon/0.2.0 --mode semver
    """
    from opmkit.index.operations.add.change import AddBundles
    from opmkit.index.operations.change import change_database

    tool = connection.tool_named(container_tool)
    with progress() as bars:
        change = AddBundles(tool, bundle_images or [], adding_flags.options(), bars)
        result = change_database(database, change.apply_to_database, dry_run=told.dry_run)
    tell_changed(result, told)


def rm(
    ctx: typer.Context,
    *,
    packages: Annotated[
        list[str] | None, typer.Option("--packages", "-o", metavar="NAME,...", help="Packages to remove (required).")
    ] = None,
    database: Database = DEFAULT_DATABASE,
    permissive: Permissive = False,
    told: Told,
) -> None:
    """Remove packages from an index database.

    [bold]Example:[/] opm registry rm --database index.db --packages lagoon-operator
    """
    from opmkit.index.operations.change import change_database
    from opmkit.index.operations.remove import RemovePackages

    require_flags(ctx, "packages")
    change = RemovePackages(packages or [], permissive=permissive)
    with fatal_if_not_removed(told):
        result = change_database(database, change.apply_to_database, must_exist=True, dry_run=told.dry_run)
    tell_changed(result, told)


def prune(
    ctx: typer.Context,
    *,
    packages: Packages = None,
    database: Database = DEFAULT_DATABASE,
    permissive: Permissive = False,
    told: Told,
) -> None:
    """Remove all packages but those named from an index database.

    [bold]Example:[/] opm registry prune --database index.db --packages lagoon-operator
    """
    from opmkit.index.operations.change import change_database
    from opmkit.index.operations.prune import PrunePackages

    require_flags(ctx, "packages")
    change = PrunePackages(packages or [], permissive=permissive)
    tell_changed(change_database(database, change.apply_to_database, must_exist=True, dry_run=told.dry_run), told)


def prune_stranded(told: Told, database: Database = DEFAULT_DATABASE) -> None:
    """Remove bundles that no channel leads to from an index database.

    [bold]Example:[/] opm registry prune-stranded --database index.db
    """
    from opmkit.index.operations.change import change_database
    from opmkit.index.operations.prune import PruneStranded

    change = PruneStranded()
    tell_changed(change_database(database, change.apply_to_database, must_exist=True, dry_run=told.dry_run), told)


def deprecatetruncate(
    *,
    bundle_images: BundleImages = None,
    database: Database = Path("index.db"),
    permissive: Permissive = False,
    allow_package_removal: AllowPackageRemoval = False,
    told: Told,
) -> None:
    """Deprecate bundles in an index database: updates end with them, and what they replace goes.

    [bold]Example:[/] opm registry deprecatetruncate --database index.db --bundle-images quay.io/me/lagoon:0.2.0
    """
    from opmkit.index.operations.change import change_database
    from opmkit.index.operations.truncate.change import TruncateBundles

    change = TruncateBundles(bundle_images or [], permissive=permissive, allow_package_removal=allow_package_removal)
    tell_changed(change_database(database, change.apply_to_database, must_exist=True, dry_run=told.dry_run), told)


def serve(
    *,
    database: Database = DEFAULT_DATABASE,
    index: Annotated[
        str, typer.Option(metavar="IMAGE", help="Serve the database of this index image, in place of a file.")
    ] = "",
    skip_migrate: SkipMigrate = False,
    timeout_seconds: Annotated[
        str, typer.Option(metavar="SECONDS", help="Stop after so many seconds; 'infinite' is never.")
    ] = INFINITE,
    serving: Serving,
    connection: Connection,
) -> None:
    """Serve an index database over gRPC, until the command is stopped.

    The file is only read. Calls in progress may end when the server is told to stop (SIGINT, SIGTERM).

    [bold]Examples:[/]

      opm registry serve --database index.db

      opm registry serve --index quay.io/me/catalog:1 --port 0
    """
    from opmkit.index.server.serve import serve_database

    settings = serving.settings(debug=connection.debug, timeout=timeout_seconds)
    with serving.logs(debug=connection.debug), _database(index, database, connection) as path:
        serve_database(path, settings, migrate=not skip_migrate, name=index)


@contextmanager
def _database(index: str, database: Path, connection: Connection) -> Iterator[Path]:
    """The database file, or that of an index image."""
    if not index:
        yield database
        return
    from opmkit.index.image.source import IndexSource, SourceKind

    tool = connection.tool()
    source = IndexSource.resolve(lambda: tool, index)
    source.require({SourceKind.DATABASE_IMAGE})
    with source.open() as content:
        yield content.path


@contextmanager
def fatal_if_not_removed(told: Told) -> Iterator[None]:
    """Print the log record of Go opm, and no ``Error:`` line, for a package that the database does not have.

    IIB retries with --permissive where it finds this record and no ``Error:`` line.
    """
    from opmkit.cli.server_logs import format_record
    from opmkit.index.errors import PackageNotRemoved

    try:
        yield
    except PackageNotRemoved as error:
        if told.output is OutputFormat.JSON:  # callers of Go opm do not ask for JSON
            raise
        print_to_stderr(format_record("fatal", "permissive mode disabled", {"error": error.message}))
        raise typer.Exit(1) from error


COMMANDS = (
    ("add", add),
    ("rm", rm),
    ("prune", prune),
    ("prune-stranded", prune_stranded),
    ("deprecatetruncate", deprecatetruncate),
    ("serve", serve),
)
