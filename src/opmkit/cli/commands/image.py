"""``opm image``: manage images in the embedded image store, layouts and registries."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from opmkit.cli.flags.output import Output, ProgressFlags, TableOutput
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import OutputFormat, TableFormat, format_size, print_json, print_line, print_table
from opmkit.cli.output.errors import conflicting_flags
from opmkit.cli.output.streams import printing_result
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.progress.command import progress, waiting

Names = Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Images")]
IMAGE_HELP = "Image, such as quay.io/me/catalog:1, oci:DIR:TAG or docker-archive:FILE"
Name = Annotated[str, typer.Argument(metavar="IMAGE", help=IMAGE_HELP)]


def ls(progress_flags: ProgressFlags, output: TableOutput = TableFormat.TEXT) -> None:
    """List the images in the embedded image store

    The store is OPM_STORE, or a directory in the user's data directory.

    [bold]Example:[/] opm image ls
    """
    from opmkit.api import Opm

    with waiting("Reading the image store"):
        images = Opm().list_stored_images()
    if output is TableFormat.JSON:
        print_json(images)
        return
    rows = [
        (
            image.name or "<none>",
            image.digest,
            format_size(image.size),
            image.created,
            ",".join(map(str, image.platforms)),
        )
        for image in images
    ]
    header = ("NAME", "DIGEST", "SIZE", "CREATED", "PLATFORMS")
    print_table(header, rows, optional=("CREATED", "PLATFORMS"), wide=output is TableFormat.WIDE)


def inspect(registry_flags: RegistryFlags, image: Name, output: Output = OutputFormat.TEXT) -> None:
    """Show the digest, platforms, labels, layers and command of an image, and whether it contains its program

    Layers are not pulled; their beginning is read, to look for the program.

    [bold]Example:[/] opm image inspect quay.io/me/catalog:1 --output json
    """
    description = registry_flags.opm().inspect_image(image).to_dict()
    if output is OutputFormat.JSON:
        print_json(description)
        return
    for key in ("name", "digest", "type"):
        _print_field(key.capitalize(), description[key])
    for part in description["images"]:
        _print_platform(part)


def pull(registry_flags: RegistryFlags, images: Names) -> None:
    """Copy images from registries to the embedded image store

    [bold]Example:[/] opm image pull quay.io/me/catalog:1
    """
    opm = registry_flags.opm()
    for image in images:
        with progress() as bars:
            stored = opm.pull_image(image, progress=bars)
        with printing_result(f"{stored}: stored"):
            print_line(stored)


def push(
    registry_flags: RegistryFlags,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Image in the embedded image store")],
    destination: str = argument("", "Image to write; default: in the registry of IMAGE", metavar="[DESTINATION]"),
) -> None:
    """Copy an image from the embedded image store to a registry, which receives only missing blobs

    [bold]Example:[/] opm image push quay.io/me/lagoon:0.1.0
    """
    opm = registry_flags.opm()
    with progress() as bars:
        name = opm.push_image(image, destination, progress=bars)
    with printing_result(f"{name}: written"):
        print_line(name)


def copy(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=IMAGE_HELP)],
    destination: Annotated[str, typer.Argument(metavar="DESTINATION", help="Image to write")],
    platform: list[str] | None = flag(
        None, "Platforms to copy; default: all that the destination supports", metavar="OS/ARCH[/VARIANT],..."
    ),
    every: bool = flag(False, "Fail if the destination cannot hold all platforms", "--all"),
) -> None:
    """Copy an image between registries, layouts, archives, container engines and the embedded image store

    The copy has the same digest if the source and the destination store manifests.

    [bold]Examples:[/]
      opm image copy quay.io/me/catalog:1 oci:backup:catalog-1
      opm image copy quay.io/me/catalog:1 docker-archive:catalog.tar:quay.io/me/catalog:1 --platform linux/arm64
      opm image copy docker-daemon:me/lagoon:0.1.0 quay.io/me/lagoon:0.1.0
    """
    if every and platform:
        raise conflicting_flags("--all", "--platform", ctx.command_path)
    opm = registry_flags.opm()
    with progress() as bars:
        name = opm.copy_image(source, destination, platforms=platform or (), require_all=every, progress=bars)
    with printing_result(f"{name}: written"):
        print_line(name)


def rm(images: Names) -> None:
    """Remove images from the embedded image store by name or digest; prune frees their space

    [bold]Example:[/] opm image rm quay.io/me/catalog:1
    """
    from opmkit.api import Opm

    Opm().remove_images(images)


def prune(
    progress_flags: ProgressFlags,
    older_than: float = flag(1.0, "Keep blobs used within this number of hours", metavar="HOURS", min=0),
) -> None:
    """Delete unused blobs from the embedded image store, and temporary files of killed processes

    [bold]Example:[/] opm image prune
    """
    from opmkit.api import Opm

    with waiting("Deleting unused blobs"):
        pruned = Opm().prune_store(older_than=older_than * 3600)
    freed, removed = format_size(pruned.freed), pruned.directories
    with printing_result(f"image store: {freed} freed"):
        print_line(f"freed {freed}")
        if removed:
            noun = "directory" if removed == 1 else "directories"
            print_line(f"removed {removed} temporary {noun} of killed processes")


def _print_field(title: str, value: str) -> None:
    """Print a line with a title, unless that is empty, and a value."""
    print_line(f"{f'{title}:' if title else '':<14}{value}", hanging=14)


def _print_platform(part: dict[str, Any]) -> None:
    print_line()
    _print_field("Platform", f"{part['platform']}  {part['digest']}")
    _print_field("Created:", part["created"])
    for title, key in (("Labels", "labels"), ("Annotations", "annotations")):
        for number, (name, value) in enumerate(sorted(part[key].items())):
            _print_field(title if number == 0 else "", f"{name}={value}")
    if part["entrypoint"] or part["cmd"]:
        program, *_ = command = (*part["entrypoint"], *part["cmd"])
        note = f" (fails: the image does not contain {program})" if part["hasProgram"] is False else ""
        _print_field("Runs", f"{' '.join(command)}{note}")
    for number, layer in enumerate(part["layers"]):
        _print_field("Layers" if number == 0 else "", f"{layer['digest']}  {format_size(layer['size'])}")
