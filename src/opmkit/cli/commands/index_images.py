"""``opm index images``: list the images that the bundles of an index need."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from opmkit.cli.flags.container_tools import PullTool
from opmkit.cli.flags.index import INDEX_HELP
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import print_json, print_line, print_table
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.progress.command import progress


class ImageSelection(StrEnum):
    """The images to list."""

    ALL = "all"
    BUNDLE = "bundle"
    RELATED = "related"


class ImageListFormat(StrEnum):
    """Output formats of a list of images."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    NAME = "name"


def images(
    *,
    index: Annotated[str, typer.Argument(metavar="INDEX", help=f"{INDEX_HELP}; or a bundle")],
    filters: list[str] | None = argument(
        None, "Packages, channels and versions; default: all bundles", metavar="[PACKAGE[:CHANNEL,...][@RANGE]]..."
    ),
    only: ImageSelection = flag(ImageSelection.ALL, "Images to list: all, bundle or related"),
    recursive: bool = flag(False, "Follow related images that are bundles; this reads all related images"),
    output: ImageListFormat = flag(
        ImageListFormat.TEXT,
        "Output format: text, wide (all columns on any terminal), json, or name (one image per line, for scripts)",
        "-o",
    ),
    container_tool: PullTool = "none",
    registry_flags: RegistryFlags,
) -> None:
    """List the bundle images and related images of an index with the bundles that need them

    [bold]Examples:[/]
      opm index images quay.io/me/catalog:1
      opm index images ./catalog lagoon-operator:stable "other-operator@>=1.2.0" --output json
      opm index images quay.io/me/catalog:1 --only related -o name | xargs -I% skopeo inspect docker://%
      opm index images quay.io/me/lagoon-bundle:1 --recursive --only bundle
    """
    opm = registry_flags.opm(container_tool)
    with progress(f"Loading {index}") as bars:
        listed = opm.list_images(index, filters or [], only=only.value, recursive=recursive, progress=bars)
    if output is ImageListFormat.NAME:
        for used in listed:
            print_line(used.image)
    elif output is ImageListFormat.JSON:
        print_json([used.to_dict() for used in listed])
    else:
        rows = [(used.image, use.kind, use.package, use.bundle) for used in listed for use in used.uses]
        header = ("IMAGE", "KIND", "PACKAGE", "NEEDED BY")
        print_table(header, rows, optional=("PACKAGE",), wide=output is ImageListFormat.WIDE)
