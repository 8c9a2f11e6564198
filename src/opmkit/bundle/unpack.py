"""Unpack a bundle to a directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.build import bundle_build_spec
from opmkit.bundle.directory import reject_layout
from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.load import load_bundle_directory, not_a_bundle
from opmkit.bundle.source import parse_location, path_or_image
from opmkit.core.files import disk_errors
from opmkit.core.scratch import ScratchDirectory
from opmkit.documents.errors import DocumentError
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import Limits, extract_tree

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
                    tool.extract(location, tree, limits=_LIMITS if validate else None)
                if validate and not (tree / "manifests").is_dir():
                    raise not_a_bundle(reference, tool.inspect(location))
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
        if _is_directory(target) or (_is_directory(source) and target.exists()):
            raise BundleError(f"{target}: conflicts with a file or directory of the image", hint="move it away")
    destination.mkdir(parents=True, exist_ok=True)
    for source, target in moves:
        source.replace(target)


def _moves(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Yield sources and targets; directories that exist in both places are merged."""
    for path in sorted(source.iterdir()):
        destination = target / path.name
        if _is_directory(path) and destination.is_dir():
            yield from _moves(path, destination)
        else:
            yield path, destination


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
