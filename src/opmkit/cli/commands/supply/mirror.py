"""``opm mirror``: copy an index with all of its images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from opmkit import MirrorScope
from opmkit.cli.commands.supply.mirror_delete import print_deletion_summary, print_failures
from opmkit.cli.flags.index import INDEX_HELP, DefaultChannels, parse_default_channels
from opmkit.cli.flags.output import Output
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.scale import ExecutorFlags, ShardOption
from opmkit.cli.help.panels import ADVANCED_PANEL
from opmkit.cli.hints import format_hint
from opmkit.cli.output.console import (
    OutputFormat,
    format_count,
    format_size,
    print_json,
    print_line,
    print_table,
)
from opmkit.cli.output.errors import UsageError, conflicting_flags, print_to_stderr, print_warnings
from opmkit.cli.output.streams import printing_result
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.parser.go_commands import given_flags
from opmkit.cli.progress.command import progress, waiting

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit import ImageSet, MirrorDeletion, MirrorOptions, MirrorPolicy, MirrorResult


MANIFESTS_PANEL = "Manifests for the cluster"
PRUNING_PANEL = "Pruning"


@dataclass(frozen=True, slots=True)
class MirrorManifestFlags:
    """Flags for the manifests of a mirror."""

    panel: ClassVar[str] = MANIFESTS_PANEL

    manifests: Path | None = flag(
        None,
        "Directory to write ImageDigestMirrorSet, ImageTagMirrorSet, CatalogSource and ClusterCatalog to, and "
        "registries.conf for podman",
        metavar="DIR",
    )
    manifest_scope: MirrorScope = flag(
        MirrorScope.NAMESPACE, "Size of what a mirror rule covers: namespace or repository"
    )
    manifest_namespace: str = flag("openshift-marketplace", "Namespace of the CatalogSource", metavar="NAMESPACE")
    never_contact_source: bool = flag(
        False, "Let the cluster fail to pull what the mirror lacks, instead of pulling it from its source"
    )

    def policy(self) -> MirrorPolicy:
        """Return the settings of the manifests."""
        from opmkit import MirrorPolicy

        return MirrorPolicy(self.manifest_scope, self.never_contact_source, self.manifest_namespace)


_INDEX_ONLY_FLAGS = frozenset(
    {"platform", "target-catalog", "default-channel", "with-dependencies", "binary-image", "have", "signatures"}
)
_SELECTION_FLAGS = frozenset({"target-catalog", "default-channel", "with-dependencies"})
INCOMPLETE = 5
"""Exit code if images could not be mirrored, and --continue is given."""


def mirror(
    ctx: typer.Context,
    *,
    index: str | None = argument(None, INDEX_HELP, metavar="INDEX"),
    filters: list[str] | None = argument(
        None,
        "Packages, channels and versions to mirror; default: the whole index",
        metavar="[PACKAGE[:CHANNEL,...][@RANGE]]...",
    ),
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="TARGET",
            help="Target: REGISTRY or REGISTRY/PREFIX, a directory such as ./mirror, or oci-archive:FILE",
        ),
    ],
    config: Path | None = flag(
        None, "ImageSetConfiguration of oc-mirror with what to mirror, instead of INDEX", "-c", metavar="FILE"
    ),
    platform: list[str] | None = flag(
        None,
        "Platforms of image indexes to copy, with unchanged digests; default: all platforms",
        metavar="OS/ARCH[/VARIANT],...",
    ),
    keep_going: bool = flag(
        False, "Copy the other images if some cannot be copied, and exit with code 5", "--continue"
    ),
    dry_run: bool = flag(False, "Show which images the target lacks, and their sizes"),
    target_catalog: str | None = flag(
        None, "Name of the catalog in the target; default: that of INDEX", panel=ADVANCED_PANEL, metavar="NAME[:TAG]"
    ),
    default_channel: DefaultChannels = None,
    with_dependencies: bool = flag(False, "Also mirror packages that mirrored bundles depend on", panel=ADVANCED_PANEL),
    binary_image: str | None = flag(
        None, "Base of a new catalog image, or scratch", "-i", panel=ADVANCED_PANEL, metavar="IMAGE"
    ),
    max_nested_paths: int | None = flag(
        None,
        "Components of a repository name in the target; further ones are joined by -",
        panel=ADVANCED_PANEL,
        metavar="NUMBER",
        min=2,
    ),
    signatures: bool = flag(
        True,
        "Copy signatures, attestations and other artifacts of the images as well",
        "--signatures/--no-signatures",
        panel=ADVANCED_PANEL,
    ),
    overwrite_tags: bool = flag(
        False, "Move tags of the target that name other images, and that this mirror has not set", panel=ADVANCED_PANEL
    ),
    workers: int = flag(8, "Blobs to transfer at the same time", panel=ADVANCED_PANEL, metavar="NUMBER", min=1, max=64),
    have: Path | None = flag(
        None,
        "Omit from the archive what earlier archives contain according to FILE, which is created or updated",
        panel=ADVANCED_PANEL,
        metavar="FILE",
    ),
    manifest_flags: MirrorManifestFlags,
    prune: bool = flag(
        False,
        "Then delete the images that only the replaced catalogs needed",
        panel=PRUNING_PANEL,
    ),
    keep: list[str] | None = flag(
        None, "Further indexes whose images are not pruned", panel=PRUNING_PANEL, metavar="INDEX,..."
    ),
    search: bool = flag(
        True,
        "Look for catalogs to keep in all repositories of the target",
        "--search/--no-search",
        panel=PRUNING_PANEL,
    ),
    output: Output = OutputFormat.TEXT,
    shard: ShardOption = "",
    executor_flags: ExecutorFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Copy an index with its bundle images and all related images to a registry, a directory or an archive

    Only what the target lacks is transferred. The catalog is copied last. An interrupted run can be repeated. With
    filters, the catalog image is built as 'opm index filter' builds it.

    INDEX can be a directory or archive that this command has written: all of its images are copied to a registry. What
    a registry no longer needs is deleted by 'opm mirror delete'.

    --shard does not copy the catalog. Repeat the command without it after all shards: it copies what is missing, and
    then the catalog.

    Exit codes: 5 if --continue is given and images could not be copied, else 1.

    [bold]Examples:[/]
      opm mirror quay.io/me/catalog:1 --to registry.example.com/mirror
      opm mirror quay.io/me/catalog:1 lagoon-operator:stable --to registry.example.com/mirror --dry-run
      opm mirror quay.io/me/catalog:1 --to oci-archive:mirror.tar --have carried.json
      opm mirror mirror.tar --to registry.example.com/mirror
      opm mirror quay.io/me/catalog:1 lagoon-operator --to registry.example.com/mirror --prune
      opm mirror --config imageset.yaml --to registry.example.com/mirror
      opm mirror quay.io/me/catalog:1 --to registry.example.com/mirror --manifests cluster && oc apply -f cluster
      opm mirror quay.io/me/catalog:1 --to registry.example.com/mirror --shard 2/10
      opm mirror quay.io/me/catalog:1 --to registry.example.com/mirror --executor dask://scheduler:8786
      opm mirror quay.io/me/catalog:1 "lagoon-operator@>=0.1.0" --to ./mirror --platform linux/amd64 --continue
    """
    from opmkit import MirrorOptions, Shard
    from opmkit.supply.mirror.errors import UnexpectedMirror
    from opmkit.supply.mirror.target import ArchiveLocation, RegistryLocation, parse_location

    location, part = parse_location(to), Shard.parse(shard) if shard else None
    is_registry, archive = isinstance(location, RegistryLocation), None
    if isinstance(location, ArchiveLocation):
        archive = location.path
    executor = executor_flags.parse(registry_flags)
    options = MirrorOptions(
        filters=tuple(filters or ()),
        platforms=tuple(platform or ()),
        default_channels=dict(parse_default_channels(default_channel or [], ctx.command_path)),
        with_dependencies=with_dependencies,
        target_catalog=target_catalog or "",
        binary_image=binary_image,
        signatures=signatures,
        continue_on_errors=keep_going,
        max_nested_paths=max_nested_paths,
        have=have,
        workers=workers,
        shard=part,
        executor=executor,
        manifests=manifest_flags.manifests,
        policy=manifest_flags.policy(),
        index_only=bool(given_flags(ctx) & _INDEX_ONLY_FLAGS),
        prune=prune,
        keep=tuple(keep or ()),
        search=search,
        overwrite_tags=overwrite_tags,
    )
    source = _source(ctx, index, config)
    _check_target(options, ctx.command_path, is_registry=is_registry, is_archive=bool(archive), is_dry_run=dry_run)
    opm = registry_flags.opm()
    with progress() as bars:
        with waiting(f"Preparing {config or index}"):
            try:
                planned = opm.open_mirror(source, to, options, dry_run=dry_run, progress=bars)
            except UnexpectedMirror:
                raise _index_required(ctx, str(index), options, is_registry=is_registry) from None
        with planned:
            result = planned.result
            print_warnings(result.warnings)
            if not dry_run:
                try:
                    with waiting(f"Mirroring {config or index}"):
                        result = planned.run()
                finally:
                    print_copied(planned.result)
                print_written(result, archive, options.manifests)
            print_mirror(result, output, is_dry_run=dry_run)
    if result.pruned and result.pruned.failures:
        raise typer.Exit(1)
    if result.failures:
        raise typer.Exit(INCOMPLETE)


def _source(ctx: typer.Context, index: str | None, config: Path | None) -> str | ImageSet:
    """Return the index or the image set to mirror; raise UsageError unless one of both is given."""
    if config is None:
        if index is None:
            raise UsageError("INDEX or --config is required", ctx.command_path)
        return index
    from opmkit import ImageSet

    if index is not None:
        raise conflicting_flags("INDEX", "--config", ctx.command_path)
    for name in sorted(given_flags(ctx) & _SELECTION_FLAGS):
        raise conflicting_flags(f"--{name}", "--config", ctx.command_path)
    return ImageSet.read(config)


def _check_target(
    options: MirrorOptions, command: str, *, is_registry: bool, is_archive: bool, is_dry_run: bool
) -> None:
    """Raise UsageError for flags that do not apply to the target."""
    if options.manifests and options.shard:
        raise UsageError(
            "--manifests and --shard cannot be used together: the manifests cover all images",
            hint="pass --manifests to the command without --shard that copies the catalog",
        )
    flag = "--executor" if options.executor else "--shard" if options.shard else ""
    if flag and not is_registry:
        raise UsageError(
            f"{flag} requires a registry as the target: a directory or archive is written by one process",
            hint=f"mirror to a registry, or omit {flag}",
        )
    if not options.prune and (options.keep or not options.search):
        raise UsageError("--keep and --no-search require --prune", command)
    if options.prune and options.shard:
        raise UsageError(
            "--prune and --shard cannot be used together: a shard does not copy the catalog",
            hint="pass --prune to the command without --shard that copies the catalog",
        )
    if options.prune and not is_registry:
        raise UsageError("--prune requires a registry as the target", command)
    if options.have and not is_archive:
        raise UsageError("--have requires oci-archive:FILE as the target", command)
    if options.manifests and is_dry_run:
        raise conflicting_flags("--manifests", "--dry-run", command)
    if options.manifests and not is_registry:
        raise UsageError("--manifests requires a registry as the target", command)


def _index_required(ctx: typer.Context, index: str, options: MirrorOptions, *, is_registry: bool) -> UsageError:
    """Return the error for a mirror in a directory or archive, with a flag or target for indexes only."""
    if options.executor:
        return UsageError(
            f"{index}: a mirror in a directory or archive is loaded by this process, not by "
            f"{options.executor.location.text}",
            hint="omit --executor, or run a process with --shard K/N for each part",
        )
    if not is_registry:
        return UsageError(f"{index}: the mirror in a directory or archive can only be loaded into a registry")
    if options.filters:
        return UsageError(f"{index}: packages cannot be selected: it is a mirror in a directory or archive")
    name = min(given_flags(ctx) & _INDEX_ONLY_FLAGS)
    return UsageError(f"{index}: --{name} cannot be used: it is a mirror in a directory or archive")


def print_copied(result: MirrorResult) -> None:
    """Report on stderr what was copied."""
    copied = _count(result, "copied")
    size = format_size(result.transferred) if result.transferred or not copied else "no layers to transfer"
    print_to_stderr(
        f"{format_count(copied, 'image')} copied ({size}), "
        f"{_count(result, 'present')} already present, {len(result.failures)} failed"
    )


def print_written(result: MirrorResult, archive: Path | None, manifests: Path | None) -> None:
    """Report on stderr whether an archive was written, and the manifests."""
    if archive:
        print_to_stderr(f"{archive}: {'written' if result.has_changed else 'unchanged'}")
    if result.manifests:
        print_to_stderr(f"manifests written to {manifests}: {', '.join(result.manifests)}")


def print_mirror(result: MirrorResult, output: OutputFormat, *, is_dry_run: bool) -> None:
    """Print the catalogs in the target, the plan, or all as JSON; and the failures on stderr."""
    if output is OutputFormat.JSON:
        print_json(_as_json(result))
    elif is_dry_run:
        _print_plan(result)
    else:
        with printing_result("the index was mirrored"):
            for catalog in result.catalogs:
                print_line(f"{catalog.name}:{catalog.tag}@{catalog.digest}")
    print_failures(result)
    if result.pruned:
        print_pruned(result.pruned, is_done=not is_dry_run)


def print_pruned(pruned: MirrorDeletion, *, is_done: bool) -> None:
    """Report on stderr what was pruned or would be, and the failures."""
    for image in pruned.in_state("deleted" if is_done else "delete"):
        print_to_stderr(f"{'pruned' if is_done else 'to prune'}: {image.target}")
    print_deletion_summary(pruned, is_done=is_done)
    print_failures(pruned)


def _count(result: MirrorResult, status: str) -> int:
    return sum(image.status == status for image in result.images)


def _print_plan(result: MirrorResult) -> None:
    rows = [
        (image.source, "present", "", image.target)
        if image.status == "present"
        else (image.source, format_size(image.size), format_size(image.missing or 0), image.target)
        for image in result.images
    ]
    for catalog in result.catalogs:
        if catalog.is_local:
            size = format_size(catalog.size)
            sizes = ("present", "") if catalog.is_present else (size, size)
            rows.append((f"new catalog from {catalog.source_name}", *sizes, f"{catalog.name}:{catalog.tag}"))
    print_table(("SOURCE", "SIZE", "TO TRANSFER", "TARGET"), rows)
    written = [catalog for catalog in result.catalogs if catalog.is_local and not catalog.is_present]
    catalogs = f"{format_count(len(written), 'catalog')} to write, " if written else ""
    total = result.size + sum(catalog.size for catalog in written)
    print_line(
        f"{format_count(_count(result, 'absent'), 'image')} to copy, {catalogs}{_count(result, 'present')} present, "
        f"{len(result.failures)} failed; {format_size(total)} in total"
    )


def _as_json(result: MirrorResult) -> dict[str, Any]:
    """Return the result with hints in terms of flags."""
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
