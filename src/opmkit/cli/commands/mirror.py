"""``opm mirror``: copy an index with all of its images."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit.cli.console import (
    Output,
    OutputFormat,
    format_count,
    format_size,
    print_json,
    print_line,
    print_table,
    progress,
)
from opmkit.cli.errors import UsageError, print_hint, print_to_stderr, print_warning
from opmkit.cli.go_commands import given_flags
from opmkit.cli.help_flags import ADVANCED_PANEL
from opmkit.cli.hints import format_hint
from opmkit.cli.index_flags import INDEX_HELP, DefaultChannels, parse_default_channels
from opmkit.cli.mirror_archive import ArchiveFlags, commit, open_target
from opmkit.cli.mirror_manifests import MirrorManifestFlags
from opmkit.cli.registry_flags import RegistryFlags
from opmkit.cli.streams import printing_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.mirroring.copy import CopyOptions
    from opmkit.imagetools.mirroring.layout_source import LayoutSource
    from opmkit.imagetools.mirroring.model import MirrorFailure
    from opmkit.imagetools.mirroring.target import MirrorTarget
    from opmkit.imagetools.progress import Progress
    from opmkit.index.mirror.load import MirrorLoad
    from opmkit.index.mirror.mirror import IndexMirror

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
    registry_flags: RegistryFlags,
) -> None:
    """Copy an index with its bundle images and all related images to a registry, a directory or an archive

    Only what the target lacks is transferred. The catalog is copied last. An interrupted run can be repeated. With
    filters, the catalog image is built as 'opm index filter' builds it.

    INDEX can be a directory or archive that this command has written: all of its images are copied to a registry.

    Exit codes: 5 if images could not be copied and --continue is given, 1 for other failures.

    [bold]Examples:[/]

      opm mirror quay.io/me/catalog:1 --to registry.example.com/mirror

      opm mirror quay.io/me/catalog:1 lagoon-operator:stable --to registry.example.com/mirror --dry-run

      opm mirror quay.io/me/catalog:1 --to oci-archive:mirror.tar --have carried.json

      opm mirror mirror.tar --to registry.example.com/mirror

      opm mirror quay.io/me/catalog:1 --to registry.example.com/mirror --manifests cluster && oc apply -f cluster

      opm mirror quay.io/me/catalog:1 "lagoon-operator@>=0.1.0" --to ./mirror --platform linux/amd64 --continue
    """
    from opmkit.imagetools.mirroring.copy import CopyOptions
    from opmkit.imagetools.mirroring.locations import find_layout_source
    from opmkit.imagetools.mirroring.plan import PlanOptions
    from opmkit.imagetools.mirroring.target import parse_location, parse_name_in_target
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.spec import Platform
    from opmkit.imagetools.store import ImageStore
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.mirror.catalog import CatalogSelection
    from opmkit.index.mirror.mirror import open_mirror
    from opmkit.index.operations.filter.package_filter import PackageFilter

    platforms = tuple(map(Platform.parse, platform or ()))
    selection = CatalogSelection(
        filters=tuple(map(PackageFilter.parse, filters or ())),
        default_channels=dict(parse_default_channels(default_channel or [], ctx.command_path)),
        with_dependencies=with_dependencies,
        platforms=platforms,
        binary_image=binary_image,
        name=parse_name_in_target(target_catalog, parse_location(to)) if target_catalog else None,
    )
    with RegistryClient(registry_flags.options()) as client, progress() as bars, ExitStack() as stack:
        target = stack.enter_context(open_target(client, to, archive_flags, max_nested_paths, ctx.command_path))
        manifest_flags.check_target(is_registry=not target.shares_blobs, is_dry_run=dry_run, command=ctx.command_path)
        copy_options = CopyOptions(keep_going, workers)
        if loaded := find_layout_source(index):
            _check_load_flags(ctx, target, index)
            failures = _load(
                loaded,
                target,
                copy_options,
                manifest_flags,
                output,
                bars,
                is_dry_run=dry_run,
                insecure=registry_flags.is_insecure,
            )
            if failures:
                raise typer.Exit(INCOMPLETE)
            return
        tool = RegistryTool(client, ImageStore.open(), workers=workers)
        plan_options = PlanOptions(platforms, measure=dry_run, workers=workers)
        with open_mirror(
            tool, client, target, index, selection, plan_options, signatures=signatures, progress=bars
        ) as opened:
            for warning in opened.catalog.change.warnings if opened.catalog.change else ():
                print_warning(warning)
            if not dry_run:
                _run(opened, copy_options, bars)
                commit(target, opened.described_images(), archive_flags)
                mirrored = (*opened.report.copied, *opened.report.present)
                catalogs = [catalog.reference for catalog in opened.catalogs]
                manifest_flags.write(mirrored, catalogs, insecure=registry_flags.is_insecure)
            _print(opened, output, is_dry_run=dry_run)
            failures = opened.report.failures
    if failures:
        raise typer.Exit(INCOMPLETE)


def _load(
    source: LayoutSource,
    target: MirrorTarget,
    options: CopyOptions,
    manifest_flags: MirrorManifestFlags,
    output: OutputFormat,
    bars: Progress,
    *,
    is_dry_run: bool,
    insecure: bool,
) -> Sequence[MirrorFailure]:
    """Copy the images of a directory or archive, and return those that cannot be copied."""
    from opmkit.imagetools.mirroring.errors import MirrorFailed
    from opmkit.index.mirror.load import open_mirror_load

    workers = options.workers
    with open_mirror_load(source, target, measure=is_dry_run, workers=workers, progress=bars) as opened:
        if opened.plan.failures and not is_dry_run and not options.continue_on_errors:
            raise MirrorFailed(opened.plan.failures, len(opened.plan.images) + len(opened.plan.failures))
        if not is_dry_run:
            _run(opened, options, bars)
            catalogs = [catalog.reference for catalog in opened.catalogs]
            manifest_flags.write((*opened.report.copied, *opened.report.present), catalogs, insecure=insecure)
        _print(opened, output, is_dry_run=is_dry_run)
        return opened.report.failures


def _check_load_flags(ctx: typer.Context, target: MirrorTarget, index: str) -> None:
    """Raise UsageError for flags and targets that apply to an index only."""
    if target.shares_blobs:
        raise UsageError(f"{index}: the mirror in a directory or archive can only be loaded into a registry")
    if ctx.params.get("filters"):
        raise UsageError(f"{index}: packages cannot be selected: it is a mirror in a directory or archive")
    for name in sorted(given_flags(ctx) & _INDEX_ONLY_FLAGS):
        raise UsageError(f"{index}: --{name} cannot be used: it is a mirror in a directory or archive")


def _run(opened: IndexMirror | MirrorLoad, options: CopyOptions, bars: Progress) -> None:
    """Copy the images; report on stderr what was copied, whatever the outcome is."""
    try:
        opened.run(options, progress=bars)
    finally:
        report = opened.report
        size = format_size(report.transferred)
        print_to_stderr(
            f"{format_count(len(report.copied), 'image')} copied ({size}), {len(report.present)} already present, "
            f"{len(report.failures)} failed"
        )


def _print(opened: IndexMirror | MirrorLoad, output: OutputFormat, *, is_dry_run: bool) -> None:
    if output is OutputFormat.JSON:
        print_json(_as_json(opened))
    elif is_dry_run:
        _print_plan(opened)
    else:
        with printing_result("the index was mirrored"):
            for catalog in opened.catalogs:
                print_line(f"{catalog.name}:{catalog.tag}@{catalog.digest}")
    for failure in opened.report.failures:
        _print_failure(failure)


def _print_plan(opened: IndexMirror | MirrorLoad) -> None:
    rows = [
        (
            str(image.request.reference),
            "present" if image.is_present else format_size(image.size),
            "" if image.is_present else format_size(image.missing or 0),
            f"{image.target}:{image.tag}",
        )
        for image in opened.plan.images
    ]
    for catalog, source in opened.local_catalogs:
        size = "present" if catalog.is_present else format_size(catalog.size)
        rows.append((f"{source.name}@{catalog.digest}", size, "", f"{catalog.name}:{catalog.tag}"))
    print_table(("SOURCE", "SIZE", "TO TRANSFER", "TARGET"), rows)
    plan = opened.plan
    print_line(
        f"{format_count(len(plan.absent), 'image')} to copy, {len(plan.present)} present, {len(plan.failures)} failed; "
        f"{format_size(plan.size)} in total"
    )


def _print_failure(failure: MirrorFailure) -> None:
    from opmkit.imagetools.mirroring.errors import failure_lines

    first, *others = failure_lines([failure])
    print_to_stderr(f"Error: {first}", *others)
    print_hint(failure.error.hint)


def _as_json(opened: IndexMirror | MirrorLoad) -> dict[str, Any]:
    """Return the result with hints in terms of flags."""
    from opmkit.index.mirror.result import MirrorResult

    result = MirrorResult.from_mirror(opened)
    failures = [
        {
            "image": failure.image,
            "message": failure.error.message,
            "hint": format_hint(failure.error.hint),
            "needed_by": failure.needed_by,
        }
        for failure in result.failures
    ]
    return {**result.to_dict(), "failures": failures}
