"""Flags for the manifests and the annotations of a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.output.errors import print_warning
from opmkit.cli.parser.go_commands import require_flags
from opmkit.core.environment import source_date_epoch

if TYPE_CHECKING:
    from opmkit.bundle.generate import Generated
    from opmkit.imagetools.build_spec import BuildSpec


_ANNOTATION_DEFAULT = "default: from the package directory or metadata/annotations.yaml"


@dataclass(frozen=True, slots=True)
class BundleFlags:
    """Flags for the manifests and the annotations of a bundle."""

    directory: Annotated[Path, typer.Option("--directory", "-d", metavar="DIR", help="Directory of the manifests")] = (
        Path()
    )
    package: Annotated[
        str,
        typer.Option(
            "--package",
            "-p",
            metavar="NAME",
            help=f"Package; {_ANNOTATION_DEFAULT}",
        ),
    ] = ""
    channels: Annotated[
        str, typer.Option("--channels", "-c", metavar="NAME,...", help=f"Channels; {_ANNOTATION_DEFAULT}")
    ] = ""
    default: Annotated[str, typer.Option("--default", "-e", metavar="CHANNEL", help="Default channel")] = ""
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output-dir",
            "-u",
            metavar="DIR",
            help="Directory to copy the manifests and write the metadata to; default: write the metadata next to "
            "--directory",
        ),
    ] = None
    base_image: Annotated[str, typer.Option(metavar="IMAGE", help="Base image")] = "scratch"

    def generate(self, ctx: typer.Context, *, overwrite: bool, needs_dockerfile: bool = True) -> Generated:
        """Write the annotations and the Dockerfile, and print warnings about the manifests."""
        from opmkit.bundle.generate import AnnotationsInput, generate

        require_flags(ctx, "directory")
        annotations = AnnotationsInput(self.package, self.channels, self.default)
        generated = generate(
            self.directory,
            annotations,
            output=self.output_dir,
            base_image=self.base_image,
            overwrite=overwrite,
            needs_dockerfile=needs_dockerfile,
        )
        for warning in generated.warnings:
            print_warning(warning)
        return generated

    def build_spec(self, ctx: typer.Context, *, overwrite: bool) -> BuildSpec:
        """Write the annotations and, if possible, the Dockerfile, and return the build spec of the bundle."""
        from opmkit.bundle.unpack import bundle_build_spec

        generated = self.generate(ctx, overwrite=overwrite, needs_dockerfile=False)
        return bundle_build_spec(generated.manifests, generated.metadata, created=source_date_epoch())
