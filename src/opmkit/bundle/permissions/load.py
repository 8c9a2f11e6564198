"""Load the permissions of bundles from directories and images, many at a time."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidBundle, NotABundle
from opmkit.bundle.load import fetch_bundle_files
from opmkit.bundle.permissions.grant import read_file_permissions
from opmkit.bundle.source import BundleSource
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import ordered_parallel_map

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.bundle.permissions.grant import Permissions
    from opmkit.imagetools.tools.tool import ContainerTool


def load_permissions(tool: ContainerTool, source: BundleSource) -> Permissions:
    """Load the permissions of the bundle in a directory or image.

    Raises:
        NotABundle: The image or directory is not a bundle.
        InvalidBundle: A file or permission is invalid; the error names the source.
        ImageToolsError: The image or a file cannot be read.
    """
    files = fetch_bundle_files(tool, source)
    try:
        return read_file_permissions(files)
    except InvalidBundle as error:
        raise InvalidBundle(f"{source.text}: {error.message}", hint=error.hint) from error


def load_image_permissions(
    tool: ContainerTool, images: Sequence[str], *, progress: Progress = NO_PROGRESS
) -> dict[str, Permissions | str]:
    """Load the permissions of bundle images concurrently.

    Returns:
        The permissions by image, or why these cannot be read for an image that is not a valid bundle.

    Raises:
        ImageToolsError: An image cannot be read.
    """
    found: dict[str, Permissions | str] = {}
    progress.begin("Reading permissions", len(images), unit="bundles")
    try:
        with closing(ordered_parallel_map(lambda image: _try_load(tool, image), images)) as loaded:
            for image, permissions in loaded:
                found[image] = permissions.result()
                progress.advance(1)
    finally:
        progress.end()
    return found


def _try_load(tool: ContainerTool, image: str) -> Permissions | str:
    try:
        return load_permissions(tool, BundleSource.from_image(image))
    except (InvalidBundle, NotABundle) as error:
        return error.message
