"""Flags for the manifests and the annotations of a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from opmkit.cli.output.errors import print_warning, print_warnings
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import require_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit import BuiltBundle, Opm, Progress


_ANNOTATION_DEFAULT = "default: from the package directory or metadata/annotations.yaml"


@dataclass(frozen=True, slots=True)
class BundleFlags:
    """Flags for the manifests and the annotations of a bundle."""

    directory: Path = flag(Path(), "Directory of the manifests", "-d", metavar="DIR")
    package: str = flag("", f"Package; {_ANNOTATION_DEFAULT}", "-p", metavar="NAME")
    channels: str = flag("", f"Channels; {_ANNOTATION_DEFAULT}", "-c", metavar="NAME,...")
    default: str = flag("", "Default channel", "-e", metavar="CHANNEL")
    output_dir: Path | None = flag(
        None,
        "Directory to copy the manifests and write the metadata to; default: write the metadata next to --directory",
        "-u",
        metavar="DIR",
    )
    base_image: str = flag("scratch", "Base image", metavar="IMAGE")

    def generate(self, ctx: typer.Context) -> None:
        """Write the annotations and the Dockerfile, and print warnings about the manifests."""
        from opmkit import Opm

        require_flags(ctx, "directory")
        generated = Opm().generate_metadata(
            self.directory,
            package=self.package,
            channels=self.channels.split(","),
            default_channel=self.default,
            output=self.output_dir,
            base_image=self.base_image,
        )
        print_warnings(generated.warnings)

    def build(self, opm: Opm, tags: Sequence[str], *, overwrite: bool, push: bool, progress: Progress) -> BuiltBundle:
        """Write the annotations and, if possible, the Dockerfile, and build the image of the bundle."""
        return opm.build_bundle(
            self.directory,
            *tags,
            package=self.package,
            channels=self.channels.split(","),
            default_channel=self.default,
            output=self.output_dir,
            base_image=self.base_image,
            write_dockerfile=True,
            overwrite=overwrite,
            push=push,
            warn=print_warning,
            progress=progress,
        )
