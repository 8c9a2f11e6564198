"""``opm mirror``: copy an index with all of its images."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.executors import ExecutorFlags
from opmkit.cli.flags.index import INDEX_HELP, DefaultChannels, parse_default_channels
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.scale import ShardOption
from opmkit.cli.help.panels import ADVANCED_PANEL
from opmkit.cli.mirror_archive import ArchiveFlags, commit, open_target
from opmkit.cli.mirror_manifests import MirrorManifestFlags
from opmkit.cli.mirror_workers import check_scale_flags, mirror_distribution
from opmkit.cli.output.console import Output, OutputFormat
from opmkit.cli.output.errors import UsageError, print_warning
from opmkit.cli.output.mirror import print_mirror, run_mirror
from opmkit.cli.parser.go_commands import given_flags
from opmkit.cli.progress.command import progress, waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.cli.flags.executors import CommandExecutor
    from opmkit.core.progress import Progress
    from opmkit.core.shard import Shard
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.supply.mirror.copy import CopyOptions
    from opmkit.supply.mirror.layout_source import LayoutSource
    from opmkit.supply.mirror.model import MirrorFailure
    from opmkit.supply.mirror.target import MirrorTarget

_INDEX_ONLY_FLAGS = frozenset(
    {"platform", "target-catalog", "default-channel", "with-dependencies", "binary-image", "have", "signatures"}
)
INCOMPLETE = 5
"""Exit code if images could not be mirrored, and --continue is given."""


def mirror(
    ctx: typer.Context,
    *,
    index: Annotated[str, typer.Argument(metavar="INDEX", help=INDEX_HELP)],
    filters: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PACKAGE[:CHANNEL,...][@RANGE]]...",
            help="Packages, channels and versions to mirror; default: the whole index",
        ),
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="TARGET",
            help="Target: REGISTRY or REGISTRY/PREFIX, a directory such as ./mirror, or oci-archive:FILE",
        ),
    ],
    platform: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            metavar="OS/ARCH[/VARIANT],...",
            help="Platforms of image indexes to copy, with unchanged digests; default: all platforms",
        ),
    ] = None,
    keep_going: Annotated[
        bool,
        typer.Option("--continue", help="Copy the other images if some cannot be copied, and exit with code 5"),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show which images the target lacks, and their sizes")
    ] = False,
    target_catalog: Annotated[
        str | None,
        typer.Option(
            "--target-catalog",
            metavar="NAME[:TAG]",
            help="Name of the catalog in the target; default: that of INDEX",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None,
    default_channel: DefaultChannels = None,
    with_dependencies: Annotated[
        bool, typer.Option("--with-dependencies", help="Also mirror packages that mirrored bundles depend on")
    ] = False,
    binary_image: Annotated[
        str | None,
        typer.Option(
            "--binary-image",
            "-i",
            metavar="IMAGE",
            help="Base of a new catalog image, or scratch",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None,
    max_nested_paths: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            min=2,
            help="Components of a repository name in the target; further ones are joined by -",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None,
    signatures: Annotated[
        bool,
        typer.Option(
            "--signatures/--no-signatures",
            help="Copy signatures, attestations and other artifacts of the images as well",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = True,
    workers: Annotated[
        int,
        typer.Option(
            metavar="NUMBER", min=1, max=64, help="Blobs to transfer at the same time", rich_help_panel=ADVANCED_PANEL
        ),
    ] = 8,
    archive_flags: ArchiveFlags,
    manifest_flags: MirrorManifestFlags,
    output: Output = OutputFormat.TEXT,
    shard: ShardOption = "",
    executor_flags: ExecutorFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Copy an index with its bundle images and all related images to a registry, a directory or an archive

    Only what the target lacks is transferred. The catalog is copied last. An interrupted run can be repeated. With
    filters, the catalog image is built as 'opm index filter' builds it.

    INDEX can be a directory or archive that this command has written: all of its images are copied to a registry.

    --shard does not copy the catalog. Repeat the command without it after all shards: it copies what is missing, and
    then the catalog.

    Exit codes: 5 if images could not be copied and --continue is given, 1 for other failures.

    [bold]Examples:[/]

      opm mirror quay.io/me/catalog:1 --to registry.example.com/mirror

      opm mirror quay.io/me/catalog:1 lagoon-operator:stable --to registry.example.com/mirror --dry-run

      opm mirror quay.io/me/catalog:1 --to oci-archive:mirror.tar --have carried.json

      opm mirror mirror.tar --to registry.example.com/mirror

      opm mirror quay.io/me/catalog:1 --to registry.example.com/mirror --manifests cluster && oc apply -f cluster

      opm mirror quay.io/me/catalog:1 --to registry.example.com/mirror --shard 2/10

      opm mirror quay.io/me/catalog:1 --to registry.example.com/mirror --executor dask://scheduler:8786

      opm mirror quay.io/me/catalog:1 "lagoon-operator@>=0.1.0" --to ./mirror --platform linux/amd64 --continue
    """
    from opmkit import RegistryClient
    from opmkit.core.shard import Shard
    from opmkit.imagetools.spec import Platform
    from opmkit.imagetools.store import ImageStore
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.operations.filter.package_filter import PackageFilter
    from opmkit.supply.mirror.catalog import CatalogSelection
    from opmkit.supply.mirror.copy import CopyOptions
    from opmkit.supply.mirror.locations import find_layout_source
    from opmkit.supply.mirror.mirror import open_mirror
    from opmkit.supply.mirror.plan import MirrorPlanOptions
    from opmkit.supply.mirror.target import parse_location, parse_name_in_target

    location, part = parse_location(to), Shard.parse(shard) if shard else None
    executor = executor_flags.parse(registry_flags)
    check_scale_flags(executor, part, location, has_manifests=bool(manifest_flags.manifests))
    platforms = tuple(map(Platform.parse, platform or ()))
    selection = CatalogSelection(
        filters=tuple(map(PackageFilter.parse, filters or ())),
        default_channels=dict(parse_default_channels(default_channel or [], ctx.command_path)),
        with_dependencies=with_dependencies,
        platforms=platforms,
        binary_image=binary_image,
        name=parse_name_in_target(target_catalog, location) if target_catalog else None,
    )
    with RegistryClient(registry_flags.options()) as client, progress() as bars, ExitStack() as stack:
        target = stack.enter_context(open_target(client, to, archive_flags, max_nested_paths, ctx.command_path))
        manifest_flags.check_target(is_registry=not target.shares_blobs, is_dry_run=dry_run, command=ctx.command_path)
        copy_options = CopyOptions(keep_going, workers)
        tool = RegistryTool(client, ImageStore.open(), workers=workers)
        if loaded := find_layout_source(index):
            _check_load_flags(ctx, target, index, executor)
            failures = _load(
                loaded,
                target,
                tool,
                copy_options,
                manifest_flags,
                output,
                bars,
                shard=part,
                is_dry_run=dry_run,
                insecure=registry_flags.is_insecure,
            )
            if failures:
                raise typer.Exit(INCOMPLETE)
            return
        plan_options = MirrorPlanOptions(platforms, measure=dry_run, workers=workers)
        distribution = stack.enter_context(mirror_distribution(executor, part, location, max_nested_paths))
        with waiting(f"Preparing {index}"):
            opened = stack.enter_context(
                open_mirror(
                    tool,
                    client,
                    target,
                    index,
                    selection,
                    plan_options,
                    signatures=signatures,
                    distribution=distribution,
                    progress=bars,
                )
            )
        for warning in opened.catalog.change.warnings if opened.catalog.change else ():
            print_warning(warning)
        if not dry_run:
            with waiting(f"Mirroring {index}"):
                run_mirror(opened, copy_options, bars)
                commit(target, opened.described_images(), archive_flags)
            mirrored = (*opened.report.copied, *opened.report.present)
            catalogs = [catalog.reference for catalog in opened.catalogs]
            manifest_flags.write(mirrored, catalogs, tool, insecure=registry_flags.is_insecure)
        print_mirror(opened, output, is_dry_run=dry_run)
        failures = opened.report.failures
    if failures:
        raise typer.Exit(INCOMPLETE)


def _load(
    source: LayoutSource,
    target: MirrorTarget,
    tool: RegistryTool,
    options: CopyOptions,
    manifest_flags: MirrorManifestFlags,
    output: OutputFormat,
    bars: Progress,
    *,
    shard: Shard | None,
    is_dry_run: bool,
    insecure: bool,
) -> Sequence[MirrorFailure]:
    """Copy the images of a directory or archive, and return those that cannot be copied."""
    from opmkit.supply.mirror.errors import MirrorFailed
    from opmkit.supply.mirror.load import open_mirror_load

    workers = options.workers
    with open_mirror_load(source, target, measure=is_dry_run, workers=workers, shard=shard, progress=bars) as opened:
        if opened.plan.failures and not is_dry_run and not options.continue_on_errors:
            raise MirrorFailed(opened.plan.failures, len(opened.plan.images) + len(opened.plan.failures))
        if not is_dry_run:
            run_mirror(opened, options, bars)
            catalogs = [catalog.reference for catalog in opened.catalogs]
            mirrored = (*opened.report.copied, *opened.report.present)
            manifest_flags.write(mirrored, catalogs, tool, insecure=insecure)
        print_mirror(opened, output, is_dry_run=is_dry_run)
        return opened.report.failures


def _check_load_flags(ctx: typer.Context, target: MirrorTarget, index: str, executor: CommandExecutor | None) -> None:
    """Raise UsageError for flags and targets that apply to an index only."""
    if executor:
        raise UsageError(
            f"{index}: a mirror in a directory or archive is loaded by this process, not by {executor.location.text}",
            hint="omit --executor, or run a process with --shard K/N for each part",
        )
    if target.shares_blobs:
        raise UsageError(f"{index}: the mirror in a directory or archive can only be loaded into a registry")
    if ctx.params.get("filters"):
        raise UsageError(f"{index}: packages cannot be selected: it is a mirror in a directory or archive")
    for name in sorted(given_flags(ctx) & _INDEX_ONLY_FLAGS):
        raise UsageError(f"{index}: --{name} cannot be used: it is a mirror in a directory or archive")
