"""``opm render``: bundles and catalogs of either kind as a file-based catalog."""

from __future__ import annotations

from typing import Annotated

import typer

from opmkit.cli.console import progress
from opmkit.cli.errors import UsageProblem, print_warning
from opmkit.cli.fbc_output import (
    CatalogFormat,
    CatalogOutput,
    MigrateLevel,
    level_named,
    print_blobs,
    render_cache,
)
from opmkit.cli.registry_flags import Connection, made_once


def render(
    ctx: typer.Context,
    *,
    references: Annotated[
        list[str],
        typer.Argument(
            metavar="REF", help="Catalog directories, databases, index images, bundle directories, bundle images."
        ),
    ],
    output: CatalogOutput = CatalogFormat.JSON,
    migrate_level: MigrateLevel = "",
    migrate: Annotated[bool, typer.Option("--migrate", help="The same as --migrate-level all.")] = False,
    alpha_image_ref_template: Annotated[
        str,
        typer.Option(
            metavar="TEMPLATE",
            help="Image of bundle directories, which have none: a text with {{.Package}}, {{.Name}}, {{.Version}}.",
        ),
    ] = "",
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Neither use nor keep what was rendered of bundle images before.")
    ] = False,
    connection: Connection,
) -> None:
    """Print bundles and catalogs as a file-based catalog.

    They are read side by side, and printed by package, schema and name. What there is on disk under the name of a
    reference goes before an image of that name.

    [bold]Examples:[/]

      opm render quay.io/me/lagoon:0.1.0 quay.io/me/lagoon:0.2.0 >> catalog/lagoon/catalog.json

      opm render index.db -o yaml --migrate-level bundle-object-to-csv-metadata

      opm render ./lagoon/0.2.0 --alpha-image-ref-template 'quay.io/me/{{.Package}}:v{{.Version}}'
    """
    from opmkit.index.render import RenderOptions
    from opmkit.index.render import render as rendered
    from opmkit.index.rendering.image_template import ImageTemplate

    if migrate and migrate_level:
        raise UsageProblem("--migrate and --migrate-level exclude each other", ctx.command_path)
    rendering = RenderOptions(
        level=level_named("all" if migrate else migrate_level),
        image_template=ImageTemplate.parse(alpha_image_ref_template) if alpha_image_ref_template else None,
        cache=None if no_cache else render_cache(),
        warn=print_warning,
    )
    with progress() as bars:
        blobs = rendered(made_once(connection.tool), references, rendering, progress=bars)
    print_blobs(blobs, output)
