"""Load a bundle from a directory or an image."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.directory import DIRECTORIES, MAX_TOTAL_BYTES, read_files, reject_layout
from opmkit.bundle.errors import InvalidBundle, NotABundle
from opmkit.bundle.hint_terms import BundleOperation
from opmkit.bundle.parse import parse_bundle
from opmkit.bundle.source import BundleSource, require_equal_platforms
from opmkit.core.hints import Hint
from opmkit.documents import MAX_BYTES
from opmkit.documents.errors import FieldTypeError
from opmkit.imagetools.layer import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.manifest import ManifestCache
    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.tools.tool import ContainerTool, InspectedImage


_LIMITS = Limits(total_bytes=2 << 30, extracted_bytes=MAX_TOTAL_BYTES, file_bytes=MAX_BYTES, entries=50_000)
_INDEX_HINT = Hint("pass bundle images; {} lists those of an index", BundleOperation.LIST_INDEX_BUNDLES)


def load_bundle_directory(path: Path, *, cache: ManifestCache | None = None) -> Bundle:
    """Load the bundle in a directory that contains ``manifests/`` and ``metadata/``.

    Raises:
        NotABundle: There is no ``manifests/`` directory.
        InvalidBundle: No catalog can contain the bundle.
        DiskError: A file cannot be read.
    """
    return parse_bundle_files(BundleSource(str(path), path, ""), read_bundle_directory(path, str(path)), cache=cache)


def load_bundle_image(tool: ContainerTool, reference: str, *, cache: ManifestCache | None = None) -> Bundle:
    """Load the bundle in an image; the ``image`` of the bundle is ``reference``.

    Raises:
        NotABundle: The image is not a bundle.
        InvalidBundle: No catalog can contain the bundle.
        ImageToolsError: The image cannot be read.
    """
    source = BundleSource.from_image(reference)
    return parse_bundle_files(source, fetch_bundle_files(tool, source), cache=cache)


def fetch_bundle_files(tool: ContainerTool, source: BundleSource) -> dict[str, bytes]:
    """Read the files of a bundle from its image or directory, by their paths.

    Raises:
        NotABundle: The image or directory is not a bundle.
        InvalidBundle: A file of a directory is too large.
        ImageToolsError: The image or a file cannot be read.
    """
    if isinstance(source.location, Path):
        return read_bundle_directory(source.location, source.text)
    image = require_equal_platforms(tool, source.location)
    files = tool.read_tree(image, DIRECTORIES, _LIMITS)
    if not any(path.startswith("manifests/") for path in files):
        raise not_a_bundle(source.text, tool.inspect(image))
    return files


def parse_bundle_files(
    source: BundleSource, files: Mapping[str, bytes], *, cache: ManifestCache | None = None, strict: bool = True
) -> Bundle:
    """Parse the files of a bundle, see `parse_bundle`.

    Raises:
        InvalidBundle: No catalog can contain the bundle; the error names the source.
    """
    try:
        return parse_bundle(files, image=source.image, cache=cache, strict=strict)
    except (InvalidBundle, FieldTypeError) as error:
        raise InvalidBundle(f"{source.text}: {error.message}", hint=error.hint) from error


def read_bundle_directory(path: Path, name: str) -> dict[str, bytes]:
    """Read the files of the bundle in a directory, which is called ``name`` in errors.

    Raises:
        NotABundle: There is no ``manifests/`` directory.
        InvalidBundle: A file is too large.
        DiskError: A file cannot be read.
    """
    reject_layout(path, name)
    if not (path / "manifests").is_dir():
        raise NotABundle(f"{name} has no manifests directory", hint="pass the directory that contains manifests/")
    return {f"{name}/{file}": content for name in DIRECTORIES for file, content in read_files(path / name).items()}


def not_a_bundle(reference: str, image: InspectedImage) -> NotABundle:
    """Return an error that says what an image without manifests is, by its labels and entrypoint."""
    hint: Hint | str
    if labels.INDEX_DATABASE in image.labels:
        kind, hint = "it is an index image with a database", _INDEX_HINT
    elif labels.INDEX_CONFIGS in image.labels:
        kind, hint = "it is an index image with a file-based catalog", _INDEX_HINT
    elif labels.PACKAGE in image.labels:
        kind, hint = "it has the labels of a bundle, but no manifests directory", "build the bundle again"
    elif image.config.entrypoint or image.config.cmd:
        command = " ".join((*image.config.entrypoint, *image.config.cmd))
        kind = f"it is the image of a program, perhaps of the operator (it runs {command!r})"
        hint = "pass the image that contains the operator's manifests"
    else:
        kind, hint = "it is an image of unknown kind", "pass an image with manifests/ and metadata/ directories"
    return NotABundle(f"{reference} is not a bundle: {kind}", hint=hint)
