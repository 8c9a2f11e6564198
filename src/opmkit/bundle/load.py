"""Bundles out of directories and images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.document import MAX_BYTES
from opmkit.bundle.errors import InvalidBundle, NotABundle
from opmkit.bundle.parse import parse_bundle
from opmkit.bundle.source import BundleSource
from opmkit.imagetools.hints import Hint, Operation
from opmkit.imagetools.layer import Limits
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.manifest import ManifestCache
    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.tools import ContainerTool, InspectedImage

DIRECTORIES = ("manifests", "metadata")
ALL_BYTES = 64 << 20
"""The most bytes that the files of a bundle may have together; those of real ones have some megabytes."""
_LIMITS = Limits(total_bytes=2 << 30, extracted_bytes=ALL_BYTES, file_bytes=MAX_BYTES, entries=50_000)


def load_bundle_directory(path: Path, *, cache: ManifestCache | None = None) -> Bundle:
    """Read the bundle whose ``manifests`` and ``metadata`` directories are in ``path``.

    Raises:
        NotABundle: if there is no such directory.
        InvalidBundle: if a catalog can't hold it.
        StoreError: if a file can't be read.
    """
    return parse_bundle_files(BundleSource(str(path), path, ""), read_bundle_directory(path, str(path)), cache=cache)


def load_bundle_image(tool: ContainerTool, reference: str, *, cache: ManifestCache | None = None) -> Bundle:
    """Read the bundle that an image holds; its ``image`` is ``reference`` as given.

    Raises:
        NotABundle: if the image is something else, which the message names.
        InvalidBundle: if a catalog can't hold it.
        ImageToolsError: if the image can't be read.
    """
    source = BundleSource.recorded(reference)
    return parse_bundle_files(source, fetch_bundle_files(tool, source), cache=cache)


def fetch_bundle_files(tool: ContainerTool, source: BundleSource) -> dict[str, bytes]:
    """Read the files of a bundle, by their paths.

    Raises:
        NotABundle: if the image or directory is something else, which the message names.
        InvalidBundle: if a file of a directory is too large.
        ImageToolsError: if the image can't be read, or a file of a directory.
    """
    if isinstance(source.place, Path):
        return read_bundle_directory(source.place, source.text)
    files = tool.read_tree(source.place, DIRECTORIES, _LIMITS)
    if not any(path.startswith("manifests/") for path in files):
        raise not_a_bundle(source.text, tool.inspect(source.place))
    return files


def parse_bundle_files(
    source: BundleSource, files: Mapping[str, bytes], *, cache: ManifestCache | None = None, strict: bool = True
) -> Bundle:
    """Parse the files of a bundle, see `parse_bundle`.

    Raises:
        InvalidBundle: naming the source, if a catalog can't hold it.
    """
    try:
        return parse_bundle(files, image=source.image, cache=cache, strict=strict)
    except InvalidBundle as error:
        raise InvalidBundle(f"{source.text}: {error.message}", hint=error.hint) from error


def read_bundle_directory(path: Path, name: str) -> dict[str, bytes]:
    """Read the files of a bundle below a directory, which errors call ``name``.

    Raises:
        NotABundle: if there is no such directory.
        InvalidBundle: if a file is too large.
        StoreError: if one can't be read.
    """
    if not (path / "manifests").is_dir():
        raise NotABundle(f"{name} has no manifests directory", hint="Give the directory that manifests/ is in.")
    return {f"{name}/{file}": content for name in DIRECTORIES for file, content in read_files(path / name).items()}


_FROM_INDEX = Hint("pass bundle images; {} lists those of an index", Operation.LIST_INDEX_BUNDLES)


def not_a_bundle(reference: str, image: InspectedImage) -> NotABundle:
    """Say what an image without manifests is: by its labels, else by whether it runs something."""
    hint: Hint | str
    if labels.INDEX_DATABASE in image.labels:
        what = "an index image with a database"
        hint = _FROM_INDEX
    elif labels.INDEX_CONFIGS in image.labels:
        what, hint = (
            "an index image with a file-based catalog",
            _FROM_INDEX,
        )
    elif labels.PACKAGE in image.labels:
        what, hint = "labelled as one, but has no manifests directory", "Build the bundle again."
    elif image.config.entrypoint or image.config.cmd:
        runs = " ".join((*image.config.entrypoint, *image.config.cmd))
        what = f"a program's image, perhaps the operator itself (it runs {runs!r})"
        hint = "Give the image that holds the operator's manifests."
    else:
        what, hint = "an image of unknown kind", "Give an image with manifests/ and metadata/ directories."
    return NotABundle(f"{reference} is no bundle: it is {what}", hint=hint)


def read_files(directory: Path) -> dict[str, bytes]:
    """Read the regular files of a directory, not of those within it; none if there is no such directory.

    Raises:
        InvalidBundle: if one is too large, or all of them together.
        StoreError: if the disk says no.
    """
    files: dict[str, bytes] = {}
    left = ALL_BYTES
    with disk_errors(directory):
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            if not path.is_file():
                continue
            size = path.stat().st_size
            left -= size
            if size > MAX_BYTES or left < 0:
                what, bound = (path, MAX_BYTES) if size > MAX_BYTES else (directory, ALL_BYTES)
                raise InvalidBundle(f"{what} has more than {bound} bytes", hint="Keep nothing but manifests there.")
            files[path.name] = path.read_bytes()
    return files
