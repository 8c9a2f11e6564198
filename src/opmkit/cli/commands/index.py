"""``opm index``: make and change index images."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.commands.graph import graph
from opmkit.cli.commands.index_filter import deprecate, filter_index
from opmkit.cli.commands.index_manifests import manifests
from opmkit.cli.commands.registry import fatal_if_not_removed
from opmkit.cli.console import print_json, print_text, progress
from opmkit.cli.errors import UsageProblem
from opmkit.cli.go_commands import given_flags, require_flags
from opmkit.cli.index_flags import (
    Adding,
    AllowPackageRemoval,
    FromIndex,
    Packages,
    Permissive,
    Place,
    PullTool,
    Target,
    Told,
    Tool,
    Tools,
    build_changed,
    tell_built,
)
from opmkit.cli.registry_flags import Connection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.operations.change import Change

Bundles = Annotated[
    list[str] | None,
    typer.Option(
        "--bundles",
        "-b",
        metavar="IMAGE,...",
        help="Bundle images, or bundles' directories as ./DIR (required; may be empty).",
    ),
]


def add(
    ctx: typer.Context,
    *,
    bundles: Bundles = None,
    from_index: FromIndex = None,
    adding_flags: Adding,
    place: Place,
    tools: Tools,
    target: Target,
    told: Told,
    connection: Connection,
) -> None:
    """Add bundles to an index, a database or a file-based catalog, and make a new index image of it.

    Bundles are pulled in parallel. Nothing changes unless all goes well; the tag moves last.

    [bold]Examples:[/]

      opm index add --bundles quay.io/me/lagoon:0.1.0 --tag quay.io/me/catalog:1 --push

      opm index add -b quay.io/me/lagoon:0.2.0 -f quay.io/me/catalog:1 -t quay.io/me/catalog:2 --push

      opm index add -b quay.io/me/lagoon:0.2.0 -f quay.io/me/catalog:1 --dry-run

      opm index add -b ./lagoon/0.2.0=quay.io/me/lagoon:0.2.0 -t oci-archive:catalog.tar:2

      opm index add -b quay.io/me/lagoon:0.2.0 -f ./catalog --channel stable --replaces lagoon.v0.1.0
    """
    from opmkit.index.image.build import build_index
    from opmkit.index.operations.add.change import AddBundles

    require_flags(ctx, "bundles")
    placement = place.placement(ctx, bundles or [])
    opened = tools.open(connection, ctx.command_path)
    with progress() as bars:
        options = adding_flags.options(placement, target.level)
        change = AddBundles(opened.pull, bundles or [], options, bars)
        built = build_index(opened.pull, opened.build, target.plan(from_index, told), change, progress=bars)
    tell_built(built, told, opened.build, push=target.push)


def rm(
    ctx: typer.Context,
    *,
    operators: Annotated[
        list[str] | None, typer.Option("--operators", "-o", metavar="NAME,...", help="Packages to remove (required).")
    ] = None,
    from_index: FromIndex = None,
    permissive: Permissive = False,
    tools: Tools,
    target: Target,
    told: Told,
    connection: Connection,
) -> None:
    """Remove packages from an index and make a new index image of it.

    [bold]Example:[/] opm index rm --operators lagoon-operator -f quay.io/me/catalog:1 -t quay.io/me/catalog:2 --push
    """
    from opmkit.index.operations.remove import RemovePackages

    require_flags(ctx, "from-index", "operators")
    opened = tools.open(connection, ctx.command_path)
    with fatal_if_not_removed(told):
        build_changed(
            opened, target.plan(from_index, told), RemovePackages(operators or [], permissive=permissive), told
        )


def prune(
    ctx: typer.Context,
    *,
    packages: Packages = None,
    from_index: FromIndex = None,
    permissive: Permissive = False,
    tool: Tool,
    target: Target,
    told: Told,
    connection: Connection,
) -> None:
    """Remove all packages but those named, and make a new index image.

    [bold]Example:[/] opm index prune --packages lagoon-operator -f quay.io/me/catalog:1 -t quay.io/me/small:1 --push
    """
    from opmkit.index.operations.prune import PrunePackages

    require_flags(ctx, "from-index", "packages")
    opened = tool.open(connection)
    build_changed(opened, target.plan(from_index, told), PrunePackages(packages or [], permissive=permissive), told)


def prune_stranded(
    ctx: typer.Context,
    *,
    from_index: FromIndex = None,
    tool: Tool,
    target: Target,
    told: Told,
    connection: Connection,
) -> None:
    """Remove bundles that no channel leads to, and make a new index image.

    [bold]Example:[/] opm index prune-stranded -f quay.io/me/catalog:1 -t quay.io/me/catalog:2 --push
    """
    from opmkit.index.operations.prune import PruneStranded

    require_flags(ctx, "from-index")
    opened = tool.open(connection)
    build_changed(opened, target.plan(from_index, told), PruneStranded(), told)


def deprecatetruncate(
    ctx: typer.Context,
    *,
    bundles: Bundles = None,
    from_index: FromIndex = None,
    permissive: Permissive = False,
    allow_package_removal: AllowPackageRemoval = False,
    tools: Tools,
    target: Target,
    told: Told,
    connection: Connection,
) -> None:
    """Deprecate bundles: updates end with them, and what they replace goes; make a new index image.

    [bold]Example:[/] opm index deprecatetruncate -b quay.io/me/lagoon:0.2.0 -f quay.io/me/catalog:2 -t quay.io/me/new:3
    """
    from opmkit.index.operations.truncate.change import TruncateBundles

    require_flags(ctx, "bundles")
    opened = tools.open(connection, ctx.command_path)
    change = TruncateBundles(bundles or [], permissive=permissive, allow_package_removal=allow_package_removal)
    build_changed(opened, target.plan(from_index, told), change, told)


@dataclass(frozen=True, slots=True)
class Steps:
    """The changes of one update."""

    add: Annotated[list[str] | None, typer.Option("--add", metavar="IMAGE,...", help="Bundle images to add.")] = None
    rm: Annotated[list[str] | None, typer.Option("--rm", metavar="NAME,...", help="Packages to remove.")] = None
    prune_to: Annotated[list[str] | None, typer.Option("--prune-to", metavar="NAME,...", help="Packages to keep.")] = (
        None
    )
    deprecate: Annotated[
        list[str] | None, typer.Option("--deprecate", metavar="IMAGE,...", help="Bundle images to deprecate.")
    ] = None

    def changes(
        self, ctx: typer.Context, add: Change, *, permissive: bool, allow_package_removal: bool
    ) -> Sequence[Change]:
        """Those that were asked for, in the order in which they are made."""
        from opmkit.index.operations.prune import PrunePackages
        from opmkit.index.operations.remove import RemovePackages
        from opmkit.index.operations.truncate.change import TruncateBundles

        deprecate = TruncateBundles(
            self.deprecate or [], permissive=permissive, allow_package_removal=allow_package_removal
        )
        possible = {
            "rm": RemovePackages(self.rm or [], permissive=permissive),
            "prune-to": PrunePackages(self.prune_to or [], permissive=permissive),
            "add": add,
            "deprecate": deprecate,
        }
        return [change for flag, change in possible.items() if flag in given_flags(ctx)]


def update(
    ctx: typer.Context,
    *,
    steps: Steps,
    from_index: FromIndex = None,
    also_tag: Annotated[
        list[str] | None, typer.Option("--also-tag", metavar="IMAGE,...", help="Further names of the new image.")
    ] = None,
    allow_package_removal: AllowPackageRemoval = False,
    adding_flags: Adding,
    place: Place,
    tools: Tools,
    target: Target,
    told: Told,
    connection: Connection,
) -> None:
    """Make several changes to an index at once: remove, prune, add and deprecate, in this order, all or nothing.

    [bold]Examples:[/]

      opm index update --add quay.io/me/lagoon:0.3.0 --rm old-operator --deprecate quay.io/me/lagoon:0.1.0
        -f quay.io/me/catalog:2 -t quay.io/me/catalog:3 --also-tag quay.io/me/catalog:latest --push

      opm index update --add quay.io/me/lagoon:0.3.0 --skip-present -f quay.io/me/catalog:2 --dry-run --output json
    """
    from opmkit.index.image.build import build_index
    from opmkit.index.operations.add.change import AddBundles
    from opmkit.index.operations.change import ChangeSequence

    placement = place.placement(ctx, steps.add or [])
    opened = tools.open(connection, ctx.command_path)
    with progress() as bars:
        changes = steps.changes(
            ctx,
            AddBundles(opened.pull, steps.add or [], adding_flags.options(placement, target.level), bars),
            permissive=adding_flags.permissive,
            allow_package_removal=allow_package_removal,
        )
        if not changes:
            raise UsageProblem("nothing to do: give --add, --rm, --prune-to or --deprecate", ctx.command_path)
        plan = target.plan(from_index, told, tuple(also_tag or ()))
        built = build_index(opened.pull, opened.build, plan, ChangeSequence(changes), progress=bars)
    tell_built(built, told, opened.build, push=target.push)


def export(
    ctx: typer.Context,
    connection: Connection,
    index: Annotated[
        str,
        typer.Option(
            "--index", "-i", metavar="INDEX", help="Index image of either kind, database file, or catalog's directory."
        ),
    ] = "",
    package: Annotated[
        list[str] | None, typer.Option("--package", "-p", metavar="NAME,...", help="Packages; all, if left out.")
    ] = None,
    xpackage: Annotated[list[str] | None, typer.Option("--xpackage", "-o", hidden=True)] = None,
    download_folder: Annotated[
        Path, typer.Option("--download-folder", "-f", metavar="DIR", help="Where the packages go.")
    ] = Path("downloaded"),
    container_tool: PullTool = "none",
) -> None:
    """Write packages of an index to a directory, in the package manifest format.

    [bold]Example:[/] opm index export --index quay.io/me/catalog:1 --package lagoon-operator --download-folder out
    """
    from opmkit.index.image.content import DatabaseContent
    from opmkit.index.image.source import IndexSource
    from opmkit.index.operations.export import export_packages, packages_in_catalog, packages_in_database

    require_flags(ctx, "index")
    if package and xpackage:
        raise UsageProblem("--package and --xpackage exclude each other", ctx.command_path)
    tool = connection.tool_named(container_tool)
    names = package or xpackage or []
    source = IndexSource.find(lambda: tool, index, build_context=True)
    with progress() as bars, source.open() as content:
        if isinstance(content, DatabaseContent):
            with content.open() as database:
                packages = list(packages_in_database(database, names))
        else:
            packages = list(packages_in_catalog(content.blobs(), names))
        export_packages(packages, download_folder, tool, progress=bars)


class DiffFormat(StrEnum):
    """The forms of a difference."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def diff(
    connection: Connection,
    before: Annotated[
        str, typer.Argument(metavar="A", help="An index image, a database file, or a catalog's directory.")
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="Another, of either kind.")],
    output: Annotated[
        DiffFormat, typer.Option("--output", "-o", help="Form of the result: text, json or markdown.")
    ] = DiffFormat.TEXT,
    container_tool: PullTool = "none",
) -> None:
    """Show what differs between two indexes: packages, channels, heads, default channels, bundles.

    [bold]Examples:[/]

      opm index diff quay.io/me/catalog:1 quay.io/me/catalog:2

      opm index diff old.db new.db --output markdown

      opm index diff quay.io/me/catalog:1 ./catalog
    """
    from opmkit.index.image.compare import compare_indexes
    from opmkit.index.operations.diff.report import diff_as_markdown, diff_as_text

    difference = compare_indexes(connection.tool_named(container_tool), before, after)
    if output is DiffFormat.JSON:
        print_json(difference)
    else:
        print_text((diff_as_markdown if output is DiffFormat.MARKDOWN else diff_as_text)(difference))


COMMANDS = (
    ("add", add),
    ("rm", rm),
    ("prune", prune),
    ("prune-stranded", prune_stranded),
    ("deprecatetruncate", deprecatetruncate),
    ("deprecate", deprecate),
    ("filter", filter_index),
    ("export", export),
    ("update", update),
    ("diff", diff),
    ("graph", graph),
    ("manifests", manifests),
)
