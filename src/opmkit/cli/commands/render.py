"""``opm render``: print bundles and indexes as a file-based catalog."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.executors import CommandExecutor, ExecutorFlags
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.scale import ShardOption, expand_references
from opmkit.cli.output.errors import conflicting_flags, print_warning
from opmkit.cli.output.fbc import (
    CatalogFormat,
    CatalogOutput,
    CompatOption,
    MigrateLevel,
    parse_level,
    print_blobs,
    render_cache,
    unsupported_flag,
)
from opmkit.cli.progress.command import progress
from opmkit.core.lazy import call_once
from opmkit.index.fbc.compat import CatalogCompat, ReleaseChange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit import Blobs
    from opmkit.index.render import RenderOptions


def render(
    ctx: typer.Context,
    *,
    references: Annotated[
        list[str],
        typer.Argument(
            metavar="REF",
            help="Index images, database files, catalog directories, bundle images or directories, or @FILE for a list",
        ),
    ],
    output: CatalogOutput = CatalogFormat.JSON,
    migrate_level: MigrateLevel = "",
    migrate: Annotated[bool, typer.Option("--migrate", help="Same as --migrate-level all")] = False,
    alpha_image_ref_template: Annotated[
        str,
        typer.Option(
            metavar="TEMPLATE",
            help="Image to record for bundle directories: a template with {{.Package}}, {{.Name}} and {{.Version}}",
        ),
    ] = "",
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not use the cache of earlier results")] = False,
    compat: CompatOption = CatalogCompat.NEWEST,
    shard: ShardOption = "",
    executor_flags: ExecutorFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Print bundles and indexes as a file-based catalog

    They are read in parallel, and printed by package, schema and name. Files and directories take precedence over
    images of the same name.

    [bold]Examples:[/]

      opm render quay.io/me/lagoon:0.1.0 quay.io/me/lagoon:0.2.0 >> catalog/lagoon-operator/catalog.json

      opm render index.db -o yaml --migrate-level bundle-object-to-csv-metadata

      opm render @bundles.txt --shard 2/10 > shards/2.json

      opm render @bundles.txt --executor dask://scheduler:8786

      opm render ./lagoon/0.2.0 --alpha-image-ref-template 'quay.io/me/{{.Package}}:v{{.Version}}'
    """
    from opmkit.index.fbc.migrate import MigrationLevel
    from opmkit.index.render import ImageTemplate, RenderOptions
    from opmkit.index.render import render as render_references

    if migrate and migrate_level:
        raise conflicting_flags("--migrate", "--migrate-level", ctx.command_path)
    if migrate and not compat.has(ReleaseChange.MIGRATE):
        raise unsupported_flag("--migrate", compat)
    options = RenderOptions(
        level=MigrationLevel.ALL if migrate else parse_level(migrate_level, compat),
        image_template=ImageTemplate.parse(alpha_image_ref_template) if alpha_image_ref_template else None,
        cache=None if no_cache else render_cache(),
        warn=print_warning,
        compat=compat,
    )
    references = expand_references(references, shard)
    if executor := executor_flags.parse(registry_flags):
        print_blobs(_render_by_workers(executor, references, options), output)
        return
    with progress("Rendering") as bars:
        blobs = render_references(call_once(registry_flags.tool), references, options, progress=bars)
    print_blobs(blobs, output)


def _render_by_workers(executor: CommandExecutor, references: Sequence[str], options: RenderOptions) -> Blobs:
    """Return the blobs of all references, and print the warnings; raise the first error."""
    from opmkit import Blobs
    from opmkit.index.render import RenderTask

    executor.check_paths(reference for reference in references if Path(reference).exists())
    task = RenderTask(
        executor.worker, options.level, options.image_template, options.compat, use_cache=options.cache is not None
    )
    blobs: list[Blobs] = []
    with closing(executor.map("Rendering", task, references, "references")) as rendered:
        for one in rendered:
            for warning in one.warnings:
                options.warn(warning)
            if isinstance(one.result, Exception):
                raise one.result
            blobs.append(one.result)
    return Blobs.from_blobs(blob for part in blobs for blob in part)
