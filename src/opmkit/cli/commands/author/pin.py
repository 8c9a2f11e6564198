"""``opm bundle pin``: replace the tags of images in bundles and catalogs by digests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.container_tools import PUSH_HELP
from opmkit.cli.flags.pin import PinFlags
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.target import OutputFlags
from opmkit.cli.output.console import OutputFormat
from opmkit.cli.output.errors import UsageError, conflicting_flags
from opmkit.cli.output.index import change_and_print, print_unpushed
from opmkit.cli.output.pin import PinnedTarget, check_pinned, print_pinned
from opmkit.cli.progress.command import progress
from opmkit.core.epoch import source_date_epoch

if TYPE_CHECKING:
    from opmkit import IndexSource
    from opmkit.imagetools.tools.registry import RegistryTool


class RelatedImagesFlag(StrEnum):
    """Changes of ``spec.relatedImages``."""

    COMPLETE = "complete"
    CREATE = "create"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class DestinationFlags:
    """Flags for the place of the result."""

    tag: Annotated[
        str | None, typer.Option("--tag", "-t", metavar="IMAGE", help="Name of the new image, if TARGET is an image")
    ] = None
    push: Annotated[bool, typer.Option("--push", help=PUSH_HELP)] = False
    output_dir: Annotated[
        Path | None,
        typer.Option("--output-dir", metavar="DIR", help="Directory to write a pinned copy of TARGET to"),
    ] = None

    def check_targets(self, sources: list[IndexSource], command: str) -> None:
        """Raise UsageError for flags that do not suit the targets."""
        if self.push and not self.tag:
            raise UsageError("--push requires --tag", command)
        if self.tag and self.output_dir:
            raise conflicting_flags("--tag", "--output-dir", command)
        if (self.tag or self.output_dir) and len(sources) != 1:
            raise UsageError("--tag and --output-dir require exactly one target", command)
        if self.tag and sources[0].path:
            raise UsageError(
                f"--tag: unsupported: {sources[0].text} is not an image", command, hint="omit --tag to pin it in place"
            )
        if self.output_dir and not (sources[0].path and sources[0].path.is_dir()):
            raise UsageError(f"--output-dir: unsupported: {sources[0].text} is not a directory", command)

    def check_images(self, sources: list[IndexSource], command: str) -> None:
        """Raise UsageError if an image would be written without a name."""
        for source in sources:
            if source.image and not self.tag:
                raise UsageError(f"{source.text}: an image needs a name for the result", command, hint="pass --tag")


def pin(
    ctx: typer.Context,
    *,
    targets: Annotated[
        list[str],
        typer.Argument(metavar="TARGET...", help="Bundle, catalog or template: an image, a directory or a file"),
    ],
    check: Annotated[
        bool, typer.Option("--check", help="List images without a digest and fail if there are any; changes nothing")
    ] = False,
    related_images: Annotated[
        RelatedImagesFlag,
        typer.Option(
            "--related-images",
            help="What to do with spec.relatedImages: complete (add the images that it lacks), create (unless there "
            "is one) or keep",
        ),
    ] = RelatedImagesFlag.COMPLETE,
    pin_flags: PinFlags,
    destination: DestinationFlags,
    output_flags: OutputFlags,
    registry_flags: RegistryFlags,
) -> None:
    """Replace the tags of all images in bundles, catalogs and templates by digests

    Pins the images of containers, of RELATED_IMAGE_* variables, in annotations such as containerImage, and in
    spec.relatedImages. Comments and formatting are retained. If one image cannot be resolved, nothing is written.

    [bold]Examples:[/]

      opm bundle pin ./bundle

      opm bundle pin ./bundle --check

      opm bundle pin ./bundle --output-dir pinned --replace-registry quay.io/me=registry.corp/mirror

      opm bundle pin quay.io/me/lagoon:0.1.0 --tag quay.io/me/lagoon:0.1.0-pinned --push

      opm bundle pin ./catalog --dry-run --output json
    """
    from opmkit import IndexSource
    from opmkit.author.pin.pin import pin_files, unlisted_images
    from opmkit.author.pin.related_images_mode import RelatedImagesMode
    from opmkit.author.pin.resolve import resolve_images
    from opmkit.author.pin.sources import read_pin_source

    tool = registry_flags.tool()
    options = pin_flags.options()
    mode = RelatedImagesMode(related_images.value)
    sources = [IndexSource.resolve(lambda: tool, target) for target in targets]
    destination.check_targets(sources, ctx.command_path)
    as_json = output_flags.output is OutputFormat.JSON
    if check:
        read = [read_pin_source(source).files for source in sources]
        unlisted = filter(None, (unlisted_images(files, mode) for files in read))
        check_pinned([file for files in read for file in files], options, unlisted, as_json=as_json)
        return
    if not output_flags.dry_run:
        destination.check_images(sources, ctx.command_path)
        if destination.tag and _is_catalog(sources[0]):
            _pin_catalog_image(registry_flags, targets[0], pin_flags, destination, output_flags)
            return
    targeted = [read_pin_source(source) for source in sources]
    with progress() as bars:
        uses = [use for source in targeted for file in source.files for use in file.uses()]
        images = resolve_images(uses, options, tool.registry_digest, bars)
    results = [pin_files(source.files, images, mode) for source in targeted]
    pinned = [PinnedTarget(target, result) for target, result in zip(targets, results, strict=True)]
    if not output_flags.dry_run:
        if destination.tag:
            pinned = [_build_image(tool, sources[0], pinned[0], destination)]
        else:
            for source, result in zip(targeted, results, strict=True):
                source.write(result.files, destination.output_dir)
    print_pinned(pinned, dry_run=output_flags.dry_run, as_json=as_json)
    if pinned[0].reference and destination.tag and not destination.push:
        print_unpushed([destination.tag], tool)


def _is_catalog(source: IndexSource) -> bool:
    from opmkit.index.image.source import SourceKind

    return source.kind is SourceKind.CATALOG_IMAGE


def _pin_catalog_image(
    registry_flags: RegistryFlags,
    target: str,
    pin_flags: PinFlags,
    destination: DestinationFlags,
    output_flags: OutputFlags,
) -> None:
    from opmkit import IndexPlan
    from opmkit.author.pin.catalog_change import PinImages

    plan = IndexPlan(tags=(destination.tag or "",), from_index=target, push=destination.push)
    change = PinImages(pin_flags.options(), registry_flags.tool().registry_digest)
    change_and_print(registry_flags.opm(), change, plan, output_flags)


def _build_image(
    tool: RegistryTool, source: IndexSource, target: PinnedTarget, destination: DestinationFlags
) -> PinnedTarget:
    """Build the image of a bundle with pinned manifests; return the target with the name of the image."""
    from opmkit.author.pin.sources import build_with_files
    from opmkit.imagetools.reference import parse_image_reference
    from opmkit.imagetools.transports import pin_reference

    reference = parse_image_reference(destination.tag or "")
    if source.image is None:
        return target
    with progress() as bars:
        digest = build_with_files(
            tool,
            source.image,
            target.result.files,
            reference,
            push=destination.push,
            created=source_date_epoch(),
            progress=bars,
        )
    return PinnedTarget(target.name, target.result, pin_reference(reference, digest), destination.push)
