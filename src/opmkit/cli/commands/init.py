"""``opm init``: the first document of a package in a file-based catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.errors import print_warning
from opmkit.cli.fbc_output import CatalogFormat, CatalogOutput, print_blobs


def init(
    package: Annotated[str, typer.Argument(metavar="PACKAGE", help="The name of the package.")],
    default_channel: Annotated[
        str,
        typer.Option(
            "--default-channel", "-c", metavar="NAME", help="The channel of those who subscribe without naming one."
        ),
    ] = "",
    description: Annotated[
        Path | None,
        typer.Option("--description", "-d", metavar="FILE", help="Text about the operator, such as its README.md."),
    ] = None,
    icon: Annotated[
        Path | None, typer.Option("--icon", "-i", metavar="FILE", help="The operator's icon: SVG, PNG, JPEG or GIF.")
    ] = None,
    output: CatalogOutput = CatalogFormat.JSON,
) -> None:
    """Print the document that says what a package is, to begin a file-based catalog with.

    [bold]Example:[/] opm init lagoon -c stable -d README.md -i lagoon.svg -o yaml > catalog/lagoon.yaml
    """
    from opmkit.bundle.kubernetes_names import dns1123_label
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.new_package import create_package

    blob = create_package(package, default_channel, description, icon)
    for problem in dns1123_label(package):
        print_warning(f"catalogs with a package of the name {package!r} are refused: {problem}")
    print_blobs(Blobs((blob,)), output)
