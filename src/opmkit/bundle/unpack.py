"""Unpack a bundle to a directory, and build a reproducible image of one without a Dockerfile."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from opmkit.bundle.directory import DIRECTORIES, bundle_root, is_bundle_file, read_files, reject_layout, walk
from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.labels import TEST_CONFIG
from opmkit.bundle.load import load_bundle_directory, not_a_bundle
from opmkit.bundle.metadata import read_metadata
from opmkit.bundle.source import parse_location, path_or_image, require_equal_platforms
from opmkit.core.files import check_output, disk_errors, is_partial
from opmkit.core.scratch import ScratchDirectory
from opmkit.documents.errors import DocumentError
from opmkit.imagetools.build_spec import BuildSpec
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import LayerFile, Limits, extract_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.tools.tool import ContainerTool


_LIMITS = Limits(total_bytes=2 << 30, extracted_bytes=2 << 30, file_bytes=1 << 30, entries=50_000)
"""Limits of a bundle image, which can contain more than the bundle."""


def unpack_bundle(tool: ContainerTool, reference: str, destination: Path, *, validate: bool = True) -> tuple[str, ...]:
    """Write all files of an image into a directory; existing files remain. Return warnings about the bundle.

    The image is unpacked next to the destination and moved there when it is complete and, with ``validate``, a valid
    bundle. For the directory of a bundle, the result is that of its image.

    Raises:
        BundleError: The bundle is invalid, or a file is in the place of a directory or the other way round.
        ImageToolsError: The image cannot be read or a file cannot be written.
    """
    location = parse_location(reference)
    destination = destination.absolute()
    with disk_errors(destination):
        check_output(destination)
        existing = next(path for path in (destination, *destination.parents) if path.exists())
        if existing == destination and not destination.is_dir():
            raise BundleError(f"{destination} is not a directory", hint="pass a directory to unpack into")
        with ScratchDirectory(".opm-unpack-", existing) as temporary:
            tree = Path(temporary, "tree")
            tree.mkdir()
            if isinstance(location, Path):
                reject_layout(location, reference)
                spec = bundle_build_spec(location / "manifests", location / "metadata")
                extract_tree(spec.build_on(Image.scratch(), Path(temporary)).layers, tree)
            else:
                with path_or_image(reference):
                    image = require_equal_platforms(tool, location)
                    if validate:
                        tool.read_tree(image, DIRECTORIES, _LIMITS)  # refuses links that hide what others would see
                    tool.extract(image, tree, limits=_LIMITS if validate else None)
                if validate and not (tree / "manifests").is_dir():
                    raise not_a_bundle(reference, tool.inspect(image))
            warnings = _validate(tree, reference) if validate else ()
            _move(tree, destination)
    return warnings


def _validate(tree: Path, reference: str) -> tuple[str, ...]:
    try:
        return load_bundle_directory(tree).warnings
    except (BundleError, DocumentError) as error:
        message = error.message.replace(f"{tree}", reference, 1)
        raise InvalidBundle(message, hint=error.hint) from error


def _move(tree: Path, destination: Path) -> None:
    """Move the content of a tree; check for conflicts before the first move."""
    moves = list(_moves(tree, destination))
    for source, target in moves:
        if _is_directory(target) or (_is_directory(source) and os.path.lexists(target)):
            raise BundleError(f"{target}: conflicts with a file or directory of the image", hint="move it away")
    destination.mkdir(parents=True, exist_ok=True)
    for source, target in moves:
        source.replace(target)


def _moves(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Yield sources and targets; directories that exist in both places are merged."""
    for path in sorted(source.iterdir()):
        destination = target / path.name
        if _is_directory(path) and _is_directory(destination):  # a link could lead elsewhere
            yield from _moves(path, destination)
        else:
            yield path, destination


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


CREATED_BY = "opm alpha bundle build"
"""Name of the build step in the history of bundle images, with and without a Dockerfile."""


def bundle_build_spec(manifests: Path, metadata: Path, *, created: int = 0) -> BuildSpec:
    """Return the build spec of a bundle image, for any build tool.

    All files are in one layer, with normalized modes and times, because every client reads all of them and each layer
    costs a request. The labels are the bundle's annotations. The directory of tests that they name, next to the
    metadata, is included.

    Args:
        manifests: Directory whose files, at any depth, become ``manifests/``.
        metadata: Directory whose files, at any depth, become ``metadata/``.
        created: Creation time of the image in seconds since the epoch.

    Raises:
        InvalidBundle: There are no manifests or no annotations.
        ImageToolsError: A file cannot be read.
    """
    with disk_errors(manifests):
        files = [
            *_layer_files("manifests", manifests, bundle_root(manifests)),
            *_layer_files("metadata", metadata, bundle_root(metadata)),
        ]
    if not any(file.path.startswith("manifests/") for file in files):
        raise InvalidBundle(f"{manifests}: no files found", hint="pass the directory that contains the manifests")
    labels = read_metadata({f"metadata/{name}": content for name, content in read_files(metadata).items()}).labels
    if tests := _tests_directory(labels.get(TEST_CONFIG, "")):
        with disk_errors(metadata):
            files += _layer_files(tests, metadata.parent / tests, bundle_root(metadata))
    return BuildSpec(tuple(files), labels=labels, created=created, created_by=CREATED_BY)


def _tests_directory(label: str) -> str:
    """Return the directory of tests in a label, or "" if it is not a separate directory in the bundle."""
    path = PurePosixPath(label)
    is_separate = path.parts and ".." not in path.parts and path.parts[0] not in ("/", *DIRECTORIES)
    return str(path) if is_separate else ""


def _layer_files(name: str, directory: Path, root: Path) -> list[LayerFile]:
    """List the files below a directory of the bundle ``root``; links to files of the bundle are followed."""
    if directory.exists():
        is_bundle_file(directory, root)
    return [
        LayerFile(f"{name}/{path}", Path(entry.path))
        for path, entry in walk(directory)
        if is_bundle_file(entry, root) and not is_partial(entry.name)
    ]
