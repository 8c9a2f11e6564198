"""Output of commands that pin images."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import typer

from opmkit.cli.hint_terms import CliOperation
from opmkit.cli.output.console import format_count, print_json, print_line
from opmkit.cli.output.errors import print_error, print_to_stderr, print_warning
from opmkit.cli.output.streams import printing_result
from opmkit.core.errors import OpmkitError
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit import PinnedTarget, UnpinnedUses


class UnpinnedImages(OpmkitError):
    """Images without a digest."""


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
            for warning in target.result.warnings:
                print_warning(warning)
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
    for warning in unpinned.warnings:
        print_warning(warning)
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
