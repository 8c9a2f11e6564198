"""Bundle images with changed files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.scratch import ScratchDirectory
from opmkit.imagetools.build_spec import BuildSpec
from opmkit.imagetools.layer import LayerFile
from opmkit.imagetools.uncompressed import compress_layers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.tools.registry import RegistryTool


def build_with_files(
    tool: RegistryTool,
    base: ImageReference,
    files: Mapping[str, bytes],
    target: ImageReference,
    *,
    push: bool = False,
    created: int = 0,
    progress: Progress = NO_PROGRESS,
) -> str:
    """Build an image with a further layer of changed files, and return its digest. It is reproducible.

    Args:
        tool: Reads and writes the images.
        base: The image with the old files, for one or several platforms; the new image has its format.
        files: The new content of the changed files by their paths; without any, the image is copied.
        target: The name of the new image.
        push: Whether to push it instead of saving it.
        created: Creation time of the image in seconds since the epoch.
        progress: Reports the bytes that are copied.

    Raises:
        ImageToolsError: if the image cannot be read or written.
    """
    image = tool.load(base)
    store = tool.push if push else tool.save
    with ScratchDirectory("opm-build-") as scratch:
        image = compress_layers(image, Path(scratch))
        if files:
            layer = tuple(LayerFile(path, content) for path, content in files.items())
            image = BuildSpec(layer, created=created, created_by="opm bundle pin").build_on(image, Path(scratch))
        return store(image, target, progress=progress).digest
