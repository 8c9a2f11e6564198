"""``opm init``: create the first document of a package in a file-based catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.output.errors import print_warning
from opmkit.cli.output.fbc import CatalogFormat, CatalogOutput, print_blobs


def init(
    package: Annotated[str, typer.Argument(metavar="PACKAGE", help="Name of the package")],
    default_channel: Annotated[
        str,
        typer.Option("--default-channel", "-c", metavar="NAME", help="Default channel of the package"),
    ] = "",
    description: Annotated[
        Path | None,
        typer.Option(
            "--description", "-d", metavar="FILE", help="File with the description of the operator, such as README.md"
        ),
    ] = None,
    icon: Annotated[
        Path | None, typer.Option("--icon", "-i", metavar="FILE", help="Icon of the operator: SVG, PNG, JPEG or GIF")
    ] = None,
    output: CatalogOutput = CatalogFormat.JSON,
) -> None:
    """Create the first document of a package in a file-based catalog

    [bold]Example:[/] opm init lagoon-operator -c stable -d README.md -i lagoon.svg -o yaml > catalog/package.yaml
    """
    from opmkit import Opm

    blobs = Opm().create_package(package, default_channel, description=description, icon=icon, warn=print_warning)
    print_blobs(blobs, output)
