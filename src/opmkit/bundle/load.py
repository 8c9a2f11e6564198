"""Bundles out of directories and images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.document import MAX_BYTES
from opmkit.bundle.errors import InvalidBundle, NotABundle
from opmkit.bundle.parse import parse_bundle
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.bundle.manifest import ManifestCache
    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.image import Image
    from opmkit.imagetools.tools import ContainerTool

DIRECTORIES = ("manifests", "metadata")


def load_bundle_directory(path: Path, *, cache: ManifestCache | None = None) -> Bundle:
    """Read the bundle whose ``manifests`` and ``metadata`` directories are in ``path``.

    Raises:
        NotABundle: if there is no such directory.
        InvalidBundle: if a catalog can't hold it.
        StoreError: if a file can't be read.
    """
    if not (path / "manifests").is_dir():
        raise NotABundle(f"{path} has no manifests directory", advice="Give the directory that manifests/ is in.")
    files = {f"{name}/{file}": content for name in DIRECTORIES for file, content in read_files(path / name).items()}
    try:
        return parse_bundle(files, cache=cache)
    except InvalidBundle as error:
        raise InvalidBundle(f"{path}: {error.message}", advice=error.advice) from error


def load_bundle_image(tool: ContainerTool, reference: str, *, cache: ManifestCache | None = None) -> Bundle:
    """Read the bundle that an image holds; its ``image`` is ``reference`` as given.

    Raises:
        NotABundle: if the image is something else, which the message names.
        InvalidBundle: if a catalog can't hold it.
        ImageToolsError: if the image can't be read.
    """
    return parse_bundle_image(reference, fetch_bundle_files(tool, reference), cache=cache)


def fetch_bundle_files(tool: ContainerTool, reference: str) -> dict[str, bytes]:
    """Read the files of the bundle that an image holds, by their paths.

    Raises:
        NotABundle: if the image is something else, which the message names.
        ImageToolsError: if the image can't be read.
    """
    image = parse_image_reference(reference)
    files = tool.read_tree(image, DIRECTORIES)
    if not any(path.startswith("manifests/") for path in files):
        raise not_a_bundle(reference, tool.inspect(image))
    return files


def parse_bundle_image(reference: str, files: Mapping[str, bytes], *, cache: ManifestCache | None = None) -> Bundle:
    """Parse the files of the bundle image ``reference``.

    Raises:
        InvalidBundle: naming the image, if a catalog can't hold it.
    """
    try:
        return parse_bundle(files, image=reference, cache=cache)
    except InvalidBundle as error:
        raise InvalidBundle(f"{reference}: {error.message}", advice=error.advice) from error


def not_a_bundle(reference: str, image: Image) -> NotABundle:
    """Say what an image without manifests is: by its labels, else by whether it runs something."""
    if labels.INDEX_DATABASE in image.labels:
        what = "an index image with a database"
        advice = "Give bundle images; an index to start from goes to --from-index."
    elif labels.INDEX_CONFIGS in image.labels:
        what, advice = "an index image with a file-based catalog", "Give the bundle images that the catalog lists."
    elif labels.PACKAGE in image.labels:
        what, advice = "labelled as one, but has no manifests directory", "Build the bundle again."
    elif image.config.entrypoint or image.config.cmd:
        runs = " ".join((*image.config.entrypoint, *image.config.cmd))
        what = f"a program's image, perhaps the operator itself (it runs {runs!r})"
        advice = "Give the image that holds the operator's manifests."
    else:
        what, advice = "an image of unknown kind", "Give an image with manifests/ and metadata/ directories."
    return NotABundle(f"{reference} is no bundle: it is {what}", advice=advice)


def read_files(directory: Path) -> dict[str, bytes]:
    """Read the regular files of a directory, not of those within it; none if there is no such directory.

    Raises:
        InvalidBundle: if one is too large.
        StoreError: if the disk says no.
    """
    files = {}
    with disk_errors(directory):
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            if not path.is_file():
                continue
            if path.stat().st_size > MAX_BYTES:
                raise InvalidBundle(
                    f"{path} has more than {MAX_BYTES} bytes", advice="Keep nothing but manifests there."
                )
            files[path.name] = path.read_bytes()
    return files
