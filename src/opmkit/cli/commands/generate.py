"""``opm generate``: generate files for file-based catalogs and operator projects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit import CatalogCompat, Opm, ReleaseChange
from opmkit.cli.output.errors import conflicting_flags, print_warning
from opmkit.cli.output.fbc import CompatOption, unsupported_flag
from opmkit.cli.parser.declaration import flag


def dockerfile(
    ctx: typer.Context,
    *,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Catalog directory")],
    base_image: str = flag("", "Base image", "-i", metavar="IMAGE"),
    builder_image: str = flag("", "Image to build the cache with", "-b", metavar="IMAGE"),
    binary_image: str = flag("", "Image to use as base and builder image (deprecated)", metavar="IMAGE"),
    extra_labels: list[str] | None = flag(None, "Additional labels", "-l", metavar="KEY=VALUE,..."),
    compat: CompatOption = CatalogCompat.NEWEST,
) -> None:
    """Write DIR.Dockerfile for an index image with a catalog directory

    The image contains the catalog and a cache, so that its server starts quickly. With --compat 1.43 or older, it is
    built in one stage, in which --base-image builds the cache.

    [bold]Example:[/] opm generate dockerfile catalog --extra-labels vendor=me
    """
    if binary_image and base_image:
        raise conflicting_flags("--binary-image", "--base-image", ctx.command_path)
    has_builder = compat.has(ReleaseChange.TWO_STAGES)
    if builder_image and not has_builder:
        raise unsupported_flag("--builder-image", compat)
    if binary_image and has_builder:
        print_warning("--binary-image is deprecated: use --base-image and --builder-image")
        builder_image = builder_image or binary_image
    Opm().generate_dockerfile(
        directory,
        base_image=binary_image or base_image,
        builder_image=builder_image,
        labels=extra_labels or (),
        compat=compat,
    )
