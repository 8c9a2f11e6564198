"""``opm registry``: create, change and serve index databases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from opmkit.cli.flags.container_tools import PullTool
from opmkit.cli.flags.index import AddFlags, AllowPackageRemoval, BundleImages, Database, Packages, Permissive
from opmkit.cli.flags.output import ProgressFlags
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.server import INFINITE, ServerFlags, SkipMigrate
from opmkit.cli.flags.target import ChangeOutputFlags, OutputFlags
from opmkit.cli.output.index import fatal_if_not_removed, print_database_change
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import require_flags
from opmkit.cli.progress.command import progress, waiting

if TYPE_CHECKING:
    from opmkit import AppliedChange
    from opmkit.index.change import Change

DEFAULT_DATABASE = Path("bundles.db")


def add(
    *,
    bundle_images: BundleImages = None,
    database: Database = DEFAULT_DATABASE,
    container_tool: PullTool = "none",
    add_flags: AddFlags,
    output_flags: ChangeOutputFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Add bundles to an index database, which is created if it does not exist

    Bundles are pulled in parallel. If the command fails, the file is unchanged.

    [bold]Examples:[/]
      opm registry add --database index.db --bundle-images quay.io/me/lagoon:0.1.0,quay.io/me/lagoon:0.2.0
      opm registry add -d index.db -b ./lagoon/0.1.0,./lagoon/0.2.0 --mode semver
    """
    opm = registry_flags.opm(container_tool)
    with progress("Adding bundles") as bars, waiting(f"Changing {database}"):
        result = opm.add_to_database(
            bundle_images or [],
            database,
            add_flags.options(),
            require_signature=add_flags.require_signature,
            dry_run=output_flags.dry_run,
            plan_updates=output_flags.plan,
            progress=bars,
        )
    print_database_change(result, output_flags)


def rm(
    ctx: typer.Context,
    *,
    packages: list[str] | None = flag(None, "Packages to remove (required)", "-o", metavar="NAME,..."),
    database: Database = DEFAULT_DATABASE,
    permissive: Permissive = False,
    output_flags: ChangeOutputFlags,
    progress_flags: ProgressFlags,
) -> None:
    """Remove packages from an index database

    [bold]Example:[/] opm registry rm --database index.db --packages lagoon-operator
    """
    from opmkit import RemovePackages

    require_flags(ctx, "packages")
    with fatal_if_not_removed(output_flags):
        result = _apply(RemovePackages(packages or [], permissive=permissive), database, output_flags)
    print_database_change(result, output_flags)


def prune(
    ctx: typer.Context,
    *,
    packages: Packages = None,
    database: Database = DEFAULT_DATABASE,
    permissive: Permissive = False,
    output_flags: ChangeOutputFlags,
    progress_flags: ProgressFlags,
) -> None:
    """Remove all packages except those named from an index database

    [bold]Example:[/] opm registry prune --database index.db --packages lagoon-operator
    """
    from opmkit import PrunePackages

    require_flags(ctx, "packages")
    change = PrunePackages(packages or [], permissive=permissive)
    print_database_change(_apply(change, database, output_flags), output_flags)


def prune_stranded(
    output_flags: OutputFlags, progress_flags: ProgressFlags, database: Database = DEFAULT_DATABASE
) -> None:
    """Remove bundles that are in no channel from an index database

    [bold]Example:[/] opm registry prune-stranded --database index.db
    """
    from opmkit import PruneStranded

    print_database_change(_apply(PruneStranded(), database, output_flags), output_flags)


def deprecatetruncate(
    *,
    bundle_images: BundleImages = None,
    database: Database = Path("index.db"),
    permissive: Permissive = False,
    allow_package_removal: AllowPackageRemoval = False,
    output_flags: ChangeOutputFlags,
    progress_flags: ProgressFlags,
) -> None:
    """Deprecate bundles in an index database and remove the bundles that they replace

    [bold]Example:[/] opm registry deprecatetruncate --database index.db --bundle-images quay.io/me/lagoon:0.1.0
    """
    from opmkit import TruncateBundles

    change = TruncateBundles(bundle_images or [], permissive=permissive, allow_package_removal=allow_package_removal)
    print_database_change(_apply(change, database, output_flags), output_flags)


def serve(
    *,
    database: Database = DEFAULT_DATABASE,
    index: str = flag("", "Index image whose database to serve instead of a file", metavar="IMAGE"),
    skip_migrate: SkipMigrate = False,
    timeout_seconds: str = flag(INFINITE, "Stop after this number of seconds, or 'infinite'", metavar="SECONDS"),
    server_flags: ServerFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Serve an index database over gRPC

    The file is never written. On SIGINT and SIGTERM, the server completes the calls in progress.

    [bold]Examples:[/]
      opm registry serve --database index.db
      opm registry serve --index quay.io/me/database:1 --port 0
    """
    from opmkit import Opm

    debug = registry_flags.debug
    settings = server_flags.settings(debug=debug, timeout=timeout_seconds)
    with server_flags.logs(debug=debug):
        opm, loading = registry_flags.opm() if index else Opm(), waiting(f"Loading {index or database}")
        opm.serve_database(database, settings, image=index, migrate=not skip_migrate, loading=loading)


def _apply(change: Change, path: Path, output_flags: OutputFlags) -> AppliedChange:
    """Apply a change to the database at ``path``, or to a copy for a dry run."""
    from opmkit import Opm

    with waiting(f"Changing {path}"):
        return Opm().change_database(
            change, path, dry_run=output_flags.dry_run, plan_updates=output_flags.plans_updates
        )
