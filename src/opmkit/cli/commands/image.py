"""``opm image``: manage images in the embedded image store, layouts and registries."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit.cli.flags.progress import ProgressFlags
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import Output, OutputFormat, format_size, print_json, print_line, print_table
from opmkit.cli.output.errors import conflicting_flags
from opmkit.cli.output.streams import printing_result
from opmkit.cli.progress.command import progress, waiting
from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.imagetools.hint_terms import ImageOperation

if TYPE_CHECKING:
    from opmkit import Reference
    from opmkit.imagetools.image import Image, ImageIndex
    from opmkit.imagetools.tools.registry import RegistryTool

_MAX_SEARCHED = 64 << 20
"""Decompressed bytes of an image's layers that are searched for its program."""
_log = logging.getLogger(__name__)

Names = Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Images")]
IMAGE_HELP = "Image, such as quay.io/me/catalog:1, oci:DIR:TAG or docker-archive:FILE"
Name = Annotated[str, typer.Argument(metavar="IMAGE", help=IMAGE_HELP)]


def ls(progress_flags: ProgressFlags, output: Output = OutputFormat.TEXT) -> None:
    """List the images in the embedded image store

    The store is OPM_STORE, or a directory in the user's data directory.

    [bold]Example:[/] opm image ls
    """
    from opmkit.imagetools.store import ImageStore

    with waiting("Reading the image store"):
        images = ImageStore.open().list()
    if output is OutputFormat.JSON:
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
    print_table(("NAME", "DIGEST", "SIZE", "CREATED", "PLATFORMS"), rows, optional=("CREATED", "PLATFORMS"))


def inspect(registry_flags: RegistryFlags, image: Name, output: Output = OutputFormat.TEXT) -> None:
    """Show the digest, platforms, labels, layers and command of an image, and whether it contains its program

    Layers are not pulled; their beginning is read, to look for the program.

    [bold]Example:[/] opm image inspect quay.io/me/catalog:1 --output json
    """
    from opmkit.imagetools.reference import parse_image_reference

    tool = registry_flags.tool()
    description = _describe(image, tool.load(parse_image_reference(image)), tool)
    if output is OutputFormat.JSON:
        print_json(description)
        return
    for key in ("name", "digest", "type"):
        print_line(f"{key.capitalize() + ':':<14}{description[key]}")
    for part in description["images"]:
        _print_platform(part)


def pull(registry_flags: RegistryFlags, images: Names) -> None:
    """Copy images from registries to the embedded image store

    [bold]Example:[/] opm image pull quay.io/me/catalog:1
    """
    from opmkit import RegistryClient
    from opmkit.imagetools.image import load_image_or_index
    from opmkit.imagetools.store import ImageStore
    from opmkit.imagetools.tools.registry import RegistryTool

    client = RegistryClient(registry_flags.options())
    tool = RegistryTool(client, ImageStore.open())
    for reference in map(_parse_registry_image, images):
        with progress() as bars:
            saved = tool.save(
                load_image_or_index(client.repository(reference), reference.identifier), reference, progress=bars
            )
        with printing_result(f"{reference}@{saved.digest}: stored"):
            print_line(f"{reference}@{saved.digest}")


def _parse_registry_image(text: str) -> Reference:
    """Parse the name of an image in a registry; raise OpmkitError with what to do with others."""
    from opmkit import Reference
    from opmkit.bundle.source import parse_location
    from opmkit.imagetools.errors import InvalidReference
    from opmkit.imagetools.store.layout_files import LAYOUT_FILE

    location = parse_location(text)
    if isinstance(location, Reference):
        return location
    hint = f"copy it with 'opm image copy {text} store:NAME:TAG'"
    if isinstance(location, Path):
        hint = "pass the name of an image, such as quay.io/NAMESPACE/NAME:TAG"
        if (location / LAYOUT_FILE).is_file():
            hint = f"copy an image of the layout with 'opm image copy oci:{text}:TAG store:NAME:TAG'"
        elif (location / "manifests").is_dir():
            hint = f"build an image of the bundle with 'opm bundle build --directory {location / 'manifests'}'"
    raise InvalidReference(f"{text}: not an image in a registry", hint=hint)


def push(
    registry_flags: RegistryFlags,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Image in the embedded image store")],
    destination: Annotated[
        str, typer.Argument(metavar="[DESTINATION]", help="Image to write; default: in the registry of IMAGE")
    ] = "",
) -> None:
    """Copy an image from the embedded image store to a registry, which receives only missing blobs

    [bold]Example:[/] opm image push quay.io/me/lagoon:0.1.0
    """
    from opmkit import Reference
    from opmkit.core.hints import Hint
    from opmkit.imagetools.errors import NotFound
    from opmkit.imagetools.image import load_image_or_index
    from opmkit.imagetools.reference import parse_image_reference
    from opmkit.imagetools.store import ImageStore
    from opmkit.imagetools.transports import pin_reference

    reference = Reference.parse(image)
    store = ImageStore.open()
    try:
        stored = load_image_or_index(store.repository(reference.name), reference.identifier)
    except NotFound as error:
        raise NotFound(
            f"{reference}: not found in the image store {store.layout.path}",
            hint=Hint("list the stored images with {}", ImageOperation.LIST_STORED_IMAGES),
        ) from error
    target = parse_image_reference(destination or image)
    with progress() as bars:
        pushed = registry_flags.tool().push(stored, target, progress=bars)
    name = pin_reference(target, pushed.digest)
    with printing_result(f"{name}: written"):
        print_line(name)


def copy(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=IMAGE_HELP)],
    destination: Annotated[str, typer.Argument(metavar="DESTINATION", help="Image to write")],
    platform: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            metavar="OS/ARCH[/VARIANT],...",
            help="Platforms to copy; default: all that the destination supports",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Fail if the destination cannot hold all platforms")] = False,
) -> None:
    """Copy an image between registries, layouts, archives, container engines and the embedded image store

    The copy has the same digest if the source and the destination store manifests.

    [bold]Examples:[/]

      opm image copy quay.io/me/catalog:1 oci:backup:catalog-1

      opm image copy quay.io/me/catalog:1 docker-archive:catalog.tar:quay.io/me/catalog:1 --platform linux/arm64

      opm image copy docker-daemon:me/lagoon:0.1.0 quay.io/me/lagoon:0.1.0
    """
    from opmkit.imagetools.image import select_platforms
    from opmkit.imagetools.reference import parse_image_reference
    from opmkit.imagetools.spec import Platform
    from opmkit.imagetools.transports import check_platform_support, pin_reference

    if every and platform:
        raise conflicting_flags("--all", "--platform", ctx.command_path)
    tool = registry_flags.tool()
    target = parse_image_reference(destination)
    image = tool.load(parse_image_reference(source))
    if platform:
        image = select_platforms(image, [Platform.parse(name) for name in platform], source)
    if every:
        check_platform_support(image, target)
    with progress() as bars:
        pushed = tool.push(image, target, progress=bars)
    name = pin_reference(target, pushed.digest)
    with printing_result(f"{name}: written"):
        print_line(name)


def rm(images: Names) -> None:
    """Remove images from the embedded image store by name or digest; prune frees their space

    [bold]Example:[/] opm image rm quay.io/me/catalog:1
    """
    from opmkit import Reference
    from opmkit.imagetools.store import ImageStore

    store = ImageStore.open()
    for name in images:
        store.remove(Reference.parse(name))


def prune(
    progress_flags: ProgressFlags,
    older_than: Annotated[
        float, typer.Option(metavar="HOURS", min=0, help="Keep blobs used within this number of hours")
    ] = 1.0,
) -> None:
    """Delete unused blobs from the embedded image store, and temporary files of killed processes

    [bold]Example:[/] opm image prune
    """
    import tempfile

    from opmkit.core.scratch import remove_stale_directories
    from opmkit.imagetools.store import ImageStore

    with waiting("Deleting unused blobs"):
        freed = format_size(ImageStore.open().prune(grace=older_than * 3600))
        removed = remove_stale_directories(Path(tempfile.gettempdir()))
    with printing_result(f"image store: {freed} freed"):
        print_line(f"freed {freed}")
        if removed:
            noun = "directory" if removed == 1 else "directories"
            print_line(f"removed {removed} temporary {noun} of killed processes")


def _describe(name: str, loaded: Image | ImageIndex, tool: RegistryTool) -> dict[str, Any]:
    from opmkit.imagetools.image import Image

    head = loaded.manifest if isinstance(loaded, Image) else loaded.index
    images = [loaded] if isinstance(loaded, Image) else loaded.images
    return {
        "name": name,
        "digest": head.digest,
        "type": head.media_type,
        "annotations": dict(head.annotations),
        "images": [_describe_platform(image, tool) for image in images],
    }


def _describe_platform(image: Image, tool: RegistryTool) -> dict[str, Any]:
    config = image.config
    return {
        "platform": str(config.platform),
        "digest": image.digest,
        "created": config.created,
        "annotations": dict(image.manifest.annotations),
        "labels": dict(config.labels),
        "entrypoint": config.entrypoint,
        "cmd": config.cmd,
        "hasProgram": _has_program(image, tool),
        "exposedPorts": config.exposed_ports,
        "layers": [{"digest": layer.digest, "size": layer.size} for layer in image.manifest.layers],
    }


def _has_program(image: Image, tool: RegistryTool) -> bool | None:
    """Return whether an image contains the program that it runs, None if that is unknown."""
    from opmkit import ImageToolsError
    from opmkit.imagetools.layer import Limits

    try:
        return tool.has_program(image, Limits(total_bytes=_MAX_SEARCHED))
    except (ImageToolsError, LimitExceeded, DiskError) as error:
        _log.debug("%s: searching the program failed: %s", image.digest, error)
        return None


def _print_platform(part: dict[str, Any]) -> None:
    print_line()
    print_line(f"{'Platform:':<14}{part['platform']}  {part['digest']}")
    print_line(f"{'Created:':<14}{part['created']}")
    for title, key in (("Labels", "labels"), ("Annotations", "annotations")):
        for number, (name, value) in enumerate(sorted(part[key].items())):
            print_line(f"{title + ':' if number == 0 else '':<14}{name}={value}")
    if part["entrypoint"] or part["cmd"]:
        program, *_ = command = (*part["entrypoint"], *part["cmd"])
        note = f" (fails: the image does not contain {program})" if part["hasProgram"] is False else ""
        print_line(f"{'Runs:':<14}{' '.join(command)}{note}")
    for number, layer in enumerate(part["layers"]):
        print_line(f"{'Layers:' if number == 0 else '':<14}{layer['digest']}  {format_size(layer['size'])}")
