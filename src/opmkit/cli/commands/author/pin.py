"""``opm bundle pin``: replace the tags of images in bundles and catalogs by digests."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.container_tools import PUSH_HELP
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.target import OutputFlags
from opmkit.cli.hint_terms import CliOperation
from opmkit.cli.output.console import OutputFormat, format_count, print_json, print_line
from opmkit.cli.output.errors import UsageError, conflicting_flags, print_error, print_to_stderr, print_warnings
from opmkit.cli.output.index import print_built, print_unpushed
from opmkit.cli.output.streams import printing_result
from opmkit.cli.parser.declaration import flag
from opmkit.cli.progress.command import progress
from opmkit.core.errors import OpmkitError
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit import IndexSource, PinnedTarget, PinOptions, UnpinnedUses


@dataclass(frozen=True, slots=True)
class PinFlags:
    """Flags for the replacements of images."""

    replace_registry: list[str] | None = flag(
        None,
        "Replace registries, or namespaces and repositories in them; digests are asked from the old ones",
        metavar="FROM=TO,...",
    )
    replacements: Path | None = flag(
        None, "YAML or JSON file that maps images, repositories and registries to their replacements", metavar="FILE"
    )
    exclude: list[str] | None = flag(None, "Images to leave as they are, as glob patterns", metavar="PATTERN,...")
    verify: bool = flag(False, "Fail if an image that already has a digest does not exist")

    def options(self, related_images: str) -> PinOptions:
        """Return the options of the operation; raises BundleError for an invalid replacement."""
        from opmkit import PinOptions

        return PinOptions.parse(
            self.replace_registry or (),
            self.replacements,
            exclude=self.exclude or (),
            verify=self.verify,
            related_images=related_images,
        )


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


class UnpinnedImages(OpmkitError):
    """Images that have no digest, as ``--check`` requires."""


def _summary(target: PinnedTarget, *, dry_run: bool) -> str:
    """Return the numbers of changes."""
    verb, result = "would be pinned" if dry_run else "pinned", target.result
    if not result.files:
        return f"{target.name}: nothing to pin"
    counts = [f"{format_count(len(result.images), 'image')} {verb}"]
    if result.related_images:
        counts.append(f"{len(result.related_images)} added to spec.relatedImages")
    return f"{target.name}: {', '.join(counts)} in {format_count(len(result.files), 'file')}"


def print_pinned(targets: Sequence[PinnedTarget], *, dry_run: bool, as_json: bool) -> None:
    """Print the images with their replacements, or the name of the new image; numbers of changes go to stderr."""
    done = f"{', '.join(target.reference or target.name for target in targets)}: pinned"
    with nullcontext() if dry_run else printing_result(done):
        for target in targets:
            print_warnings(target.result.warnings)
        if as_json:
            print_json({"targets": [target.to_dict() for target in targets]})
            return
        for target in targets:
            for image in target.result.images:
                line = f"{image.image} -> {image.pinned}"
                (print_to_stderr if target.reference else print_line)(line)
            print_to_stderr(_summary(target, dry_run=dry_run))
            if target.reference:
                print_line(target.reference)


def check_pinned(unpinned: UnpinnedUses, *, as_json: bool) -> None:
    """Print the images without a digest, each with its file and line.

    Args:
        unpinned: The places that name the images.
        as_json: Whether to print JSON.

    Raises:
        UnpinnedImages: there are such images.
    """
    print_warnings(unpinned.warnings)
    if as_json:
        print_json(unpinned.to_dict())
    else:
        for use in unpinned.uses:
            print_line(f"{use}: {use.image} ({use.use})")
    if not unpinned.uses:
        return
    count = format_count(len({use.image for use in unpinned.uses}), "image")
    error = UnpinnedImages(f"{count} without a digest", hint=Hint("pin with {}", CliOperation.PIN_BUNDLE))
    if as_json:  # the result is already printed
        print_error(error)
        raise typer.Exit(1)
    raise error
