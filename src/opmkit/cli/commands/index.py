"""``opm index``: make and change index images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.commands.registry import print_addition
from opmkit.cli.console import Output, OutputFormat, print_json, progress
from opmkit.cli.errors import UsageProblem
from opmkit.cli.goflags import require_flags
from opmkit.cli.params import Connection

BUILD_PANEL = "Result"


def add(
    ctx: typer.Context,
    connection: Connection,
    bundles: Annotated[
        list[str] | None,
        typer.Option("--bundles", "-b", metavar="IMAGE,...", help="Bundle images to add (required; may be empty)."),
    ] = None,
    from_index: Annotated[
        str | None, typer.Option("--from-index", "-f", metavar="IMAGE", help="Index image to start from.")
    ] = None,
    binary_image: Annotated[
        str | None,
        typer.Option(
            "--binary-image",
            "-i",
            metavar="IMAGE",
            help="Image that the new one is layered on, or scratch. Default: what lies under the database of "
            "--from-index, else the last opm release that serves sqlite indexes.",
            rich_help_panel=BUILD_PANEL,
        ),
    ] = None,
    tag: Annotated[
        str,
        typer.Option("--tag", "-t", metavar="IMAGE", help="Name of the new image.", rich_help_panel=BUILD_PANEL),
    ] = "operator-registry-index:latest",
    push: Annotated[
        bool,
        typer.Option(
            "--push", help="Push to the registry of --tag, instead of the embedded store.", rich_help_panel=BUILD_PANEL
        ),
    ] = False,
    generate: Annotated[
        bool,
        typer.Option(
            "--generate",
            help="Write the database and a Dockerfile to the working directory; build nothing.",
            rich_help_panel=BUILD_PANEL,
        ),
    ] = False,
    out_dockerfile: Annotated[
        str,
        typer.Option(
            "--out-dockerfile", "-d", help="Name of the Dockerfile of --generate.", rich_help_panel=BUILD_PANEL
        ),
    ] = "index.Dockerfile",
    mode: Annotated[str, typer.Option(metavar="MODE", help="How the update graph is made: replaces.")] = "replaces",
    permissive: Annotated[bool, typer.Option("--permissive", help="Report failures as warnings; exit 0.")] = False,
    container_tool: Annotated[
        str | None, typer.Option("--container-tool", "-c", metavar="TOOL", help="Tool for pulling and building: none.")
    ] = None,
    build_tool: Annotated[
        str | None, typer.Option("--build-tool", "-u", metavar="TOOL", help="Tool for building: none.")
    ] = None,
    pull_tool: Annotated[
        str | None, typer.Option("--pull-tool", "-p", metavar="TOOL", help="Tool for pulling: none.")
    ] = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Add bundles to an index and make a new index image of it.

    Bundles are pulled in parallel. Nothing changes unless all goes well; the tag moves last.

    [bold]Examples:[/]

      opm index add --bundles quay.io/me/lagoon:0.1.0 --tag quay.io/me/catalog:1 --push

      opm index add -b quay.io/me/lagoon:0.2.0 -f quay.io/me/catalog:1 -t quay.io/me/catalog:2 --push

      opm index add -b oci:bundles/lagoon:0.1.0 -i scratch -t oci:catalog:1 --push
    """
    from opmkit.index.build import IndexPlan, add_to_index

    require_flags(ctx, "bundles")
    if container_tool and (build_tool or pull_tool):
        raise UsageProblem("container-tool cannot be set alongside pull-tool or build-tool", ctx.command_path)
    tool = connection.tool(container_tool or pull_tool or "none")
    plan = IndexPlan(
        from_index=from_index,
        binary_image=binary_image,
        tag=tag,
        push=push,
        context=Path.cwd() if generate else None,
        dockerfile=out_dockerfile,
    )
    with progress() as bars:
        result = add_to_index(tool, bundles or [], plan, mode=mode, permissive=permissive, progress=bars)
    print_addition(result.addition)
    if output is OutputFormat.JSON:
        print_json(result)
    elif result.digest:
        print(f"{result.reference}@{result.digest}")


COMMANDS = (("add", add),)
