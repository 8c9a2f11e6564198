"""``opm generate``: what goes with file-based catalogs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.errors import UsageProblem, print_warning
from opmkit.cli.fbc_output import CompatOption
from opmkit.index.fbc.compat import Compat


def dockerfile(
    ctx: typer.Context,
    *,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The catalog directory.")],
    base_image: Annotated[
        str, typer.Option("--base-image", "-i", metavar="IMAGE", help="The image that the result is layered on.")
    ] = "",
    builder_image: Annotated[
        str, typer.Option("--builder-image", "-b", metavar="IMAGE", help="The image that makes the cache.")
    ] = "",
    binary_image: Annotated[
        str, typer.Option("--binary-image", metavar="IMAGE", help="Deprecated: both of these images in one.")
    ] = "",
    extra_labels: Annotated[
        list[str] | None, typer.Option("--extra-labels", "-l", metavar="KEY=VALUE,...", help="Further labels.")
    ] = None,
    compat: CompatOption = Compat.NEWEST,
) -> None:
    """Write the Dockerfile of an index image for a catalog directory, DIR.Dockerfile beside it.

    The image has the catalog, and the cache with which its server starts at once. With --compat opm-1.26 it is built in
    one stage, in which --base-image makes the cache.

    [bold]Example:[/] opm generate dockerfile catalog --extra-labels vendor=me
    """
    from opmkit.index.image.dockerfile import CatalogDockerfile, dockerfile_path, parse_labels, write_dockerfile

    if binary_image and base_image:
        raise UsageProblem("--binary-image and --base-image exclude each other", ctx.command_path)
    if compat is Compat.OPM_1_26 and builder_image:
        raise UsageProblem("--builder-image has no place in the one stage of opm-1.26", ctx.command_path)
    path = dockerfile_path(directory)
    content = CatalogDockerfile(
        path.name.removesuffix(".Dockerfile"),
        *_images(base_image, builder_image, binary_image, compat),
        parse_labels(extra_labels or ()),
    )
    write_dockerfile(content, path)


def _images(base: str, builder: str, binary: str, compat: Compat) -> tuple[str, str]:
    """The base image, and the builder, "" for none."""
    from opmkit.index.image.dockerfile import DEFAULT_IMAGE

    if compat is Compat.OPM_1_26:
        return binary or base or DEFAULT_IMAGE, ""
    if binary:
        print_warning("--binary-image is deprecated: use --base-image and --builder-image")
    return binary or base or DEFAULT_IMAGE, builder or binary or DEFAULT_IMAGE


COMMANDS = (("dockerfile", dockerfile),)
