"""Output of commands that pin images."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from opmkit.cli.hint_terms import CliOperation
from opmkit.cli.output.console import format_count, print_json, print_line
from opmkit.cli.output.errors import print_error, print_to_stderr, print_warning
from opmkit.cli.output.streams import printing_result
from opmkit.core.errors import OpmkitError
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.author.pin.pin import PinResult
    from opmkit.author.pin.pinnable_file import PinnableFile
    from opmkit.author.pin.resolve import PinOptions


class UnpinnedImages(OpmkitError):
    """Images without a digest."""


@dataclass(frozen=True, slots=True)
class PinnedTarget:
    """A bundle, catalog or template, what changes in it, and the name and digest of the new image, if any."""

    name: str
    result: PinResult
    reference: str = ""
    pushed: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the target in JSON types."""
        return {
            "target": self.name,
            "images": [image.as_dict() for image in self.result.images],
            "relatedImages": [entry.as_dict() for entry in self.result.related_images],
            "files": list(self.result.files),
            "warnings": list(self.result.warnings),
            **({"reference": self.reference} if self.reference else {}),
        }

    def summary(self, *, dry_run: bool) -> str:
        """Return the numbers of changes."""
        verb = "would be pinned" if dry_run else "pinned"
        if not self.result.files:
            return f"{self.name}: nothing to pin"
        counts = [f"{format_count(len(self.result.images), 'image')} {verb}"]
        if self.result.related_images:
            counts.append(f"{len(self.result.related_images)} added to spec.relatedImages")
        return f"{self.name}: {', '.join(counts)} in {format_count(len(self.result.files), 'file')}"


def print_pinned(targets: Sequence[PinnedTarget], *, dry_run: bool, as_json: bool) -> None:
    """Print the images with their replacements, or the name of the new image; numbers of changes go to stderr."""
    done = f"{', '.join(target.reference or target.name for target in targets)}: pinned"
    with nullcontext() if dry_run else printing_result(done):
        for target in targets:
            for warning in target.result.warnings:
                print_warning(warning)
        if as_json:
            print_json({"targets": [target.as_dict() for target in targets]})
            return
        for target in targets:
            for image in target.result.images:
                line = f"{image.image} -> {image.pinned}"
                (print_to_stderr if target.reference else print_line)(line)
            print_to_stderr(target.summary(dry_run=dry_run))
            if target.reference:
                print_line(target.reference)


def check_pinned(files: Sequence[PinnableFile], options: PinOptions, unlisted: Iterable[str], *, as_json: bool) -> None:
    """Print the images without a digest, each with its file and line.

    Args:
        files: The files that name images.
        options: Images to exclude.
        unlisted: Warnings about images that are not related images.
        as_json: Whether to print JSON.

    Raises:
        UnpinnedImages: there are such images.
    """
    from opmkit.author.pin.pin import use_as_dict
    from opmkit.author.pin.resolve import find_unpinned

    for warning in (*(warning for file in files for warning in file.warnings), *unlisted):
        print_warning(warning)
    unpinned = list(find_unpinned((use for file in files for use in file.uses()), options))
    if as_json:
        print_json({"unpinned": [{"image": use.image, **use_as_dict(use)} for use in unpinned]})
    else:
        for use in unpinned:
            print_line(f"{use}: {use.image} ({use.use})")
    if not unpinned:
        return
    count = format_count(len({use.image for use in unpinned}), "image")
    error = UnpinnedImages(f"{count} without a digest", hint=Hint("pin with {}", CliOperation.PIN_BUNDLE))
    if as_json:  # the result is already printed
        print_error(error)
        raise typer.Exit(1)
    raise error
