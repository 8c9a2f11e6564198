"""``opm index build``: build an index image from a catalog."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.container_tools import ToolFlags
from opmkit.cli.flags.index import INDEX_HELP, AlsoTag
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.target import CATALOG_PANEL, NamedTargetFlags, OutputFlags
from opmkit.cli.output.errors import UsageError
from opmkit.cli.output.index import build_and_print
from opmkit.cli.progress.command import waiting

if TYPE_CHECKING:
    from opmkit.index.image.source import IndexSource


@dataclass(frozen=True, slots=True)
class BuildFlags(NamedTargetFlags):
    """Flags for the image of an index whose bundles are all migrated."""

    migrate_level: Annotated[
        str,
        typer.Option(
            "--migrate-level",
            metavar="LEVEL",
            help="Migration of the bundles of a file-based catalog: none, bundle-object-to-csv-metadata or all",
            rich_help_panel=CATALOG_PANEL,
        ),
    ] = "none"


def build(
    ctx: typer.Context,
    *,
    catalog: Annotated[str, typer.Argument(metavar="CATALOG", help=INDEX_HELP)],
    also_tag: AlsoTag = None,
    tool_flags: ToolFlags,
    target_flags: BuildFlags,
    output_flags: OutputFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Build an index image from a catalog directory

    The catalog is validated first, as by opm validate. If it is invalid, nothing is built. Equal catalogs result in
    equal digests.

    [bold]Examples:[/]

      opm index build ./catalog --tag quay.io/me/catalog:1 --push

      opm index build ./catalog --tag quay.io/me/catalog:1 --also-tag quay.io/me/catalog:latest --push

      opm index build ./catalog --binary-image scratch --tag oci-archive:catalog.tar:1

      opm index build quay.io/me/database:1 --to-fbc --tag quay.io/me/catalog:1 --push
    """
    from opmkit.index.fbc.migrate import MigrationLevel
    from opmkit.index.image.build import DEFAULT_TAG
    from opmkit.index.image.source import IndexSource
    from opmkit.index.operations.require_valid import RequireValid

    if not (target_flags.tag or target_flags.generate or output_flags.dry_run):
        raise UsageError("no result: pass --tag, --generate or --dry-run", ctx.command_path)
    tools = tool_flags.open(registry_flags)
    source = IndexSource.find(lambda: tools.pull, catalog, build_context=True)
    if source.path:
        with waiting(f"Loading {catalog}"):
            check_index(source)
    named = replace(target_flags, tag=target_flags.tag or DEFAULT_TAG)
    plan = named.plan(catalog, output_flags, tuple(also_tag or ()))
    change = RequireValid(catalog, target_flags.level or MigrationLevel.NONE)
    build_and_print(tools, plan, change, output_flags)


def check_index(source: IndexSource) -> None:
    """Raise CatalogError, with the name that the user gave, if a path is neither a catalog directory nor a database."""
    from opmkit.index.image.content import DatabaseContent

    with source.open() as content:
        if isinstance(content, DatabaseContent):
            with content.open():
                pass
