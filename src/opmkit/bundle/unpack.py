"""The files of a bundle on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.build import bundle_build_spec
from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.load import load_bundle_directory, not_a_bundle
from opmkit.bundle.source import parse_place
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import Limits, extract_tree
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.tools import ContainerTool


_LIMITS = Limits(total_bytes=2 << 30, extracted_bytes=2 << 30, file_bytes=1 << 30, entries=50_000)
"""What may come of a bundle's image, which can have more in it than the bundle."""


def unpack_bundle(tool: ContainerTool, reference: str, destination: Path, *, validate: bool = True) -> tuple[str, ...]:
    """Write all files of an image into ``destination``, beside what is there; give the remarks on the bundle.

    Of a bundle's directory (see `parse_place`) that is what its image would have. The image is unpacked next to where
    it goes and moved there when it is whole and, with ``validate``, a bundle. A directory that has to be made gets the
    usual mode.

    Raises:
        BundleError: if it is no valid bundle, or a file stands where a directory would go, or the other way round.
        ImageToolsError: if the image can't be read, or the disk says no.
    """
    place = parse_place(reference)
    destination = destination.absolute()
    with disk_errors(destination):
        near = next(path for path in (destination, *destination.parents) if path.exists())
        if near == destination and not destination.is_dir():
            raise BundleError(f"{destination} is no directory", hint="Give a directory to unpack into.")
        with ScratchDirectory(".opm-unpack-", near) as temporary:
            tree = Path(temporary, "tree")
            tree.mkdir()
            if isinstance(place, Path):
                build_spec = bundle_build_spec(place / "manifests", place / "metadata")
                extract_tree(build_spec.build_on(Image.scratch(), Path(temporary)).layers, tree)
            else:
                tool.extract(place, tree, limits=_LIMITS if validate else None)
                if validate and not (tree / "manifests").is_dir():
                    raise not_a_bundle(reference, tool.inspect(place))
            warnings = _validate(tree, reference) if validate else ()
            _move(tree, destination)
    return warnings


def _validate(tree: Path, reference: str) -> tuple[str, ...]:
    try:
        return load_bundle_directory(tree).warnings
    except BundleError as error:
        message = error.message.replace(f"{tree}", reference, 1)
        raise InvalidBundle(message, hint=error.hint) from error


def _move(tree: Path, destination: Path) -> None:
    """Move a tree to its place; nothing has moved when this finds something in the way."""
    moves = list(_moves(tree, destination))
    for source, target in moves:
        if _is_directory(target) or (_is_directory(source) and target.exists()):
            raise BundleError(f"{target} is in the way of a file or directory of the image", hint="Move it away.")
    destination.mkdir(parents=True, exist_ok=True)
    for source, target in moves:
        source.replace(target)


def _moves(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Pair what moves with where to: a directory as a whole where there is none, else what is in it."""
    for path in sorted(source.iterdir()):
        place = target / path.name
        if _is_directory(path) and place.is_dir():
            yield from _moves(path, place)
        else:
            yield path, place


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
