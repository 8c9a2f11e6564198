"""``opm init``: create the first document of a package in a file-based catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.output.errors import print_warning
from opmkit.cli.output.fbc import CatalogFormat, CatalogOutput, print_blobs
from opmkit.cli.parser.declaration import flag


def init(
    package: Annotated[str, typer.Argument(metavar="PACKAGE", help="Name of the package")],
    default_channel: str = flag("", "Default channel of the package", "-c", metavar="NAME"),
    description: Path | None = flag(
        None, "File with the description of the operator, such as README.md", "-d", metavar="FILE"
    ),
    icon: Path | None = flag(None, "Icon of the operator: SVG, PNG, JPEG or GIF", "-i", metavar="FILE"),
    output: CatalogOutput = CatalogFormat.JSON,
) -> None:
    """Create the first document of a package in a file-based catalog

    [bold]Example:[/] opm init lagoon-operator -c stable -d README.md -i lagoon.svg -o yaml > catalog/package.yaml
    """
    from opmkit import Opm

    blobs = Opm().create_package(package, default_channel, description=description, icon=icon, warn=print_warning)
    print_blobs(blobs, output)
