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
from opmkit.cli.output.index import print_built, print_unpushed
from opmkit.cli.output.pin import check_pinned, print_pinned
from opmkit.cli.parser.declaration import flag
from opmkit.cli.progress.command import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit import IndexSource


class RelatedImagesFlag(StrEnum):
    """Changes of ``spec.relatedImages``."""

    COMPLETE = "complete"
    CREATE = "create"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class DestinationFlags:
    """Flags for the place of the result."""

    tag: str | None = flag(None, "Name of the new image, if TARGET is an image", "-t", metavar="IMAGE")
    push: bool = flag(False, PUSH_HELP)
    output_dir: Path | None = flag(None, "Directory to write a pinned copy of TARGET to", metavar="DIR")

    def check_targets(self, sources: Sequence[IndexSource], command: str) -> None:
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

    def check_images(self, sources: Sequence[IndexSource], command: str) -> None:
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
    check: bool = flag(False, "List images without a digest and fail if there are any; changes nothing"),
    related_images: RelatedImagesFlag = flag(
        RelatedImagesFlag.COMPLETE,
        "What to do with spec.relatedImages: complete (add the images that it lacks), create (unless there "
        "is one) or keep",
    ),
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
    from opmkit import PinDestination

    options = pin_flags.options(related_images.value)
    opm = registry_flags.opm()
    opened = opm.open_pin_targets(targets)
    destination.check_targets(opened.sources, ctx.command_path)
    as_json, place = output_flags.output is OutputFormat.JSON, None
    if check:
        check_pinned(opened.find_unpinned(options), as_json=as_json)
        return
    if not output_flags.dry_run:
        destination.check_images(opened.sources, ctx.command_path)
        place = PinDestination(destination.output_dir, destination.tag or "", destination.push)
        if destination.tag and opened.is_catalog_image:
            with progress("Changing the index") as bars:
                built = opened.pin_catalog(options, place, bars)
            print_built(built, output_flags, opm, push=destination.push)
            return
    with progress() as bars:
        pinned = opened.pin(options, place, bars)
    print_pinned(pinned, dry_run=output_flags.dry_run, as_json=as_json)
    if pinned[0].reference and destination.tag and not destination.push:
        print_unpushed([destination.tag], opm.built_images)
