"""Flags of commands that pin images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.cli.parser.declaration import flag

if TYPE_CHECKING:
    from opmkit import PinOptions


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
