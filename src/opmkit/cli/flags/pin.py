"""Flags of commands that pin images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from opmkit import PinOptions


@dataclass(frozen=True, slots=True)
class PinFlags:
    """Flags for the replacements of images."""

    replace_registry: Annotated[
        list[str] | None,
        typer.Option(
            "--replace-registry",
            metavar="FROM=TO,...",
            help="Replace registries, or namespaces and repositories in them; digests are asked from the old ones",
        ),
    ] = None
    replacements: Annotated[
        Path | None,
        typer.Option(
            "--replacements",
            metavar="FILE",
            help="YAML or JSON file that maps images, repositories and registries to their replacements",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="PATTERN,...", help="Images to leave as they are, as glob patterns"),
    ] = None
    verify: Annotated[
        bool, typer.Option("--verify", help="Fail if an image that already has a digest does not exist")
    ] = False

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
