"""``opm index build``: build an index image from a catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from opmkit.cli.flags.container_tools import ToolFlags
from opmkit.cli.flags.index import INDEX_HELP, AlsoTag
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.target import NamedTargetFlags, OutputFlags
from opmkit.cli.help.panels import CATALOG_PANEL
from opmkit.cli.output.errors import UsageError
from opmkit.cli.output.index import print_built
from opmkit.cli.parser.declaration import flag
from opmkit.cli.progress.command import progress


@dataclass(frozen=True, slots=True)
class BuildFlags(NamedTargetFlags):
    """Flags for the image of an index whose bundles are all migrated."""

    migrate_level: str = flag(
        "none",
        "Migration of the bundles of a file-based catalog: none, bundle-object-to-csv-metadata or all",
        panel=CATALOG_PANEL,
        metavar="LEVEL",
    )


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
    if not (target_flags.tag or target_flags.generate or output_flags.dry_run):
        raise UsageError("no result: pass --tag, --generate or --dry-run", ctx.command_path)
    opm = tool_flags.opm(registry_flags)
    plan = target_flags.plan_with_default_tag(catalog, output_flags, tuple(also_tag or ()))
    with progress("Changing the index") as bars:
        built = opm.build_index(plan, progress=bars)
    print_built(built, output_flags, opm, push=plan.push)
