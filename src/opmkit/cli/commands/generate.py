"""``opm generate``: generate files for file-based catalogs and operator projects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.output.errors import conflicting_flags, print_warning
from opmkit.cli.output.fbc import CompatOption, unsupported_flag
from opmkit.index.fbc.compat import CatalogCompat, ReleaseChange


def dockerfile(
    ctx: typer.Context,
    *,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Catalog directory")],
    base_image: Annotated[str, typer.Option("--base-image", "-i", metavar="IMAGE", help="Base image")] = "",
    builder_image: Annotated[
        str, typer.Option("--builder-image", "-b", metavar="IMAGE", help="Image to build the cache with")
    ] = "",
    binary_image: Annotated[
        str, typer.Option("--binary-image", metavar="IMAGE", help="Image to use as base and builder image (deprecated)")
    ] = "",
    extra_labels: Annotated[
        list[str] | None, typer.Option("--extra-labels", "-l", metavar="KEY=VALUE,...", help="Additional labels")
    ] = None,
    compat: CompatOption = CatalogCompat.NEWEST,
) -> None:
    """Write DIR.Dockerfile for an index image with a catalog directory

    The image contains the catalog and a cache, so that its server starts quickly. With --compat 1.43 or older, it is
    built in one stage, in which --base-image builds the cache.

    [bold]Example:[/] opm generate dockerfile catalog --extra-labels vendor=me
    """
    from opmkit.index.image.dockerfile import CatalogDockerfile, dockerfile_path, parse_labels, write_dockerfile

    if binary_image and base_image:
        raise conflicting_flags("--binary-image", "--base-image", ctx.command_path)
    if builder_image and not compat.has(ReleaseChange.TWO_STAGES):
        raise unsupported_flag("--builder-image", compat)
    path = dockerfile_path(directory)
    content = CatalogDockerfile(
        path.name.removesuffix(".Dockerfile"),
        *_select_images(base_image, builder_image, binary_image, compat),
        parse_labels(extra_labels or ()),
    )
    write_dockerfile(content, path)


def _select_images(base: str, builder: str, binary: str, compat: CatalogCompat) -> tuple[str, str]:
    """Return the base image, and the builder image or ""."""
    from opmkit.index.image.dockerfile import DEFAULT_IMAGE

    if not compat.has(ReleaseChange.TWO_STAGES):
        return binary or base or DEFAULT_IMAGE, ""
    if binary:
        print_warning("--binary-image is deprecated: use --base-image and --builder-image")
    return binary or base or DEFAULT_IMAGE, builder or binary or DEFAULT_IMAGE
