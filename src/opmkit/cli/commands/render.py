"""``opm render``: print bundles and indexes as a file-based catalog."""

from __future__ import annotations

from typing import Annotated

import typer

from opmkit import CatalogCompat
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.scale import ExecutorFlags, ShardOption, expand_references
from opmkit.cli.output.errors import conflicting_flags, print_warning
from opmkit.cli.output.fbc import (
    CatalogFormat,
    CatalogOutput,
    CompatOption,
    MigrateLevel,
    check_migrate_flag,
    parse_level,
    print_blobs,
)
from opmkit.cli.parser.declaration import flag
from opmkit.cli.progress.command import progress


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
    migrate: bool = flag(False, "Same as --migrate-level all"),
    alpha_image_ref_template: str = flag(
        "",
        "Image to record for bundle directories: a template with {{.Package}}, {{.Name}} and {{.Version}}",
        metavar="TEMPLATE",
    ),
    no_cache: bool = flag(False, "Do not use the cache of earlier results"),
    compat: CompatOption = CatalogCompat.NEWEST,
    shard: ShardOption = "",
    executor_flags: ExecutorFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Print bundles and indexes as a file-based catalog

    They are read in parallel, and printed by package, schema and name. Files and directories take precedence over
    images of the same name.

    DEPRECATION NOTICE: operator-registry has deprecated index databases (SQLite); 'opm migrate' converts them.

    [bold]Examples:[/]
      opm render quay.io/me/lagoon:0.1.0 quay.io/me/lagoon:0.2.0 >> catalog/lagoon-operator/catalog.json
      opm render index.db -o yaml --migrate-level bundle-object-to-csv-metadata
      opm render @bundles.txt --shard 2/10 > shards/2.json
      opm render @bundles.txt --executor dask://scheduler:8786
      opm render ./lagoon/0.2.0 --alpha-image-ref-template 'quay.io/me/{{.Package}}:v{{.Version}}'
    """
    from opmkit import ImageTemplate, MigrationLevel, RenderOptions

    if migrate and migrate_level:
        raise conflicting_flags("--migrate", "--migrate-level", ctx.command_path)
    if migrate:
        check_migrate_flag(compat)
    options = RenderOptions(
        level=MigrationLevel.ALL if migrate else parse_level(migrate_level, compat),
        image_template=ImageTemplate.parse(alpha_image_ref_template) if alpha_image_ref_template else None,
        warn=print_warning,
        compat=compat,
    )
    references = expand_references(references, shard)
    opm, executor = registry_flags.opm(), executor_flags.parse(registry_flags)
    with progress("Rendering") as bars:
        blobs = opm.render(references, options, use_cache=not no_cache, executor=executor, progress=bars)
    print_blobs(blobs, output)
