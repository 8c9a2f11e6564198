"""Bundles, catalogs and templates on disk and in images, as sources of images to pin."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.author.pin.pin import MANIFEST_EXTENSIONS, read_manifests
from opmkit.author.pin.pinnable_file import PinnableFile, find_catalog_images
from opmkit.bundle.directory import read_files
from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.load import fetch_bundle_files
from opmkit.bundle.source import BundleSource
from opmkit.core.files import copy_tree, disk_errors, make_output_directory, write_files, write_trees
from opmkit.core.hints import Hint
from opmkit.core.locks import locked_directory
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.scratch import ScratchDirectory
from opmkit.documents import MAX_BYTES
from opmkit.documents.document import read_document
from opmkit.documents.errors import InvalidDocument
from opmkit.imagetools.build_spec import BuildSpec
from opmkit.imagetools.layer import LayerFile
from opmkit.imagetools.uncompressed import compress_layers
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.load import read_file
from opmkit.index.fbc.walk import iter_catalog_files
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.image.source import DATABASES, SourceKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.image.source import IndexSource


_MANIFESTS = "manifests/"


def read_pin_source(source: IndexSource) -> PinSource:
    """Read the files of a bundle, a catalog or a template; those in images are named by their paths in the image.

    Raises:
        CatalogError: The source is an index with a database, or an image of another kind.
        InvalidBundle: A document is invalid, or a field has the wrong type; the error names the file and the line.
        ImageToolsError: A file or an image cannot be read.
    """
    if source.path is not None:
        return PinSource.read(source.path, source.text)
    if source.kind in DATABASES:
        raise CatalogError(
            f"{source.text}: unsupported: it is {source.kind}",
            hint=Hint("convert it to a file-based catalog with {}", IndexOperation.MIGRATE_INDEX),
        )
    if source.kind is not SourceKind.BUNDLE_IMAGE:
        with source.open() as content:
            return PinSource.read_catalog(content.path, "")
    files = fetch_bundle_files(source.tool(), BundleSource(source.text, source.location, source.text))
    manifests = {name: raw for name, raw in files.items() if name.startswith(_MANIFESTS)}
    return PinSource(Path(), tuple(read_manifests(manifests)), {name: name for name in manifests}, is_bundle=True)


_MANIFESTS_DIRECTORY = "manifests"
_SQLITE = b"SQLite format 3\0"


class PinSource(Struct, frozen=True):
    """A bundle directory, a catalog directory or a single file whose images are to be pinned.

    Attributes:
        path: The directory, or that of the file; that of an image no longer exists.
        files: The files; their names begin with the name that was given for the path.
        relative: The path of each file relative to the directory, by its name.
        is_bundle: Whether the files are those of a bundle.
    """

    path: Path
    files: tuple[PinnableFile, ...]
    relative: Mapping[str, str]
    is_bundle: bool = False

    @classmethod
    def read(cls, path: Path, name: str) -> PinSource:
        """Read the files at a path, which is called ``name`` in messages.

        A directory with a subdirectory ``manifests``, or with a ClusterServiceVersion in it, is a bundle. Every other
        directory is a catalog. A file contains Kubernetes objects, a catalog or a template.

        Raises:
            CatalogError: The file is an index database.
            InvalidBundle: A document is invalid, or a field has the wrong type; the error names the file and the line.
            DiskError: A file cannot be read.
        """
        if not path.is_dir():
            return cls(path.parent, (PinnableFile.read(name, _read(path), find_catalog_images),), {name: path.name})
        prefix = f"{name.rstrip('/')}/"
        manifests = _bundle_manifests(path)
        if manifests is not None:
            files = read_manifests({f"{prefix}{file}": raw for file, raw in manifests.items()})
            return cls(path, tuple(files), {f"{prefix}{file}": file for file in manifests}, is_bundle=True)
        return cls.read_catalog(path, prefix)

    @classmethod
    def read_catalog(cls, path: Path, prefix: str) -> PinSource:
        """Read a catalog directory; ``prefix`` is put before the paths of its files in messages."""
        names = [file for file, _ in iter_catalog_files(path)]
        files = (PinnableFile.read(f"{prefix}{file}", read_file(path / file), find_catalog_images) for file in names)
        return cls(path, tuple(files), {f"{prefix}{file}": file for file in names})

    def changes(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the content of files by their paths relative to the directory instead of their names."""
        return {self.relative[name]: content for name, content in files.items()}

    def write_copy(self, files: Mapping[str, bytes], output: Path) -> None:
        """Write files by their names to a copy of the directory.

        Raises:
            CatalogError: ``output`` is not empty or below the directory.
            DiskError: A file cannot be written, or a link leads it out of the directory.
        """
        with disk_errors(output):
            if output.resolve().is_relative_to(self.path.resolve()):
                raise CatalogError(
                    f"{output}: cannot copy {self.path} into itself", hint="name a directory outside of it"
                )
            if output.exists() and (not output.is_dir() or any(output.iterdir())):
                raise CatalogError(f"{output}: already exists and is not empty", hint="name a new directory")
            make_output_directory(output.parent)
            with ScratchDirectory(".opm-", output.parent) as scratch:
                copy = Path(scratch, "copy")
                copy_tree(self.path, copy)
                write_files(copy, self.changes(files))
                copy.replace(output)


def replace_files(changed: Sequence[tuple[PinSource, Mapping[str, bytes]]]) -> bool:
    """Write files of several directories by their names, all of them or none, while other commands wait.

    Returns:
        False, and nothing is written, if another program has changed one of these files since it was read.

    Raises:
        DiskError: A file cannot be written, or a link leads it out of its directory.
    """
    trees: dict[Path, dict[str, bytes]] = defaultdict(dict)
    before: dict[Path, bytes] = {}
    for source, files in changed:
        trees[source.path].update(source.changes(files))
        before |= {source.path / source.relative[each.name]: each.raw for each in source.files if each.name in files}
    directories = {source.path.resolve() for source, _ in changed} | {path.parent.resolve() for path in before}
    with ExitStack() as stack:
        for directory in sorted(directories):
            stack.enter_context(locked_directory(directory))
        if any(read_file(path) != raw for path, raw in before.items()):
            return False
        write_trees({root: files for root, files in trees.items() if files})
        return True


def _read(path: Path) -> bytes:
    raw = read_file(path)
    if raw.startswith(_SQLITE):
        raise CatalogError(
            f"{path}: unsupported: it is an index database",
            hint=Hint("convert it to a file-based catalog with {}", IndexOperation.MIGRATE_INDEX),
        )
    return raw


def _bundle_manifests(path: Path) -> dict[str, bytes] | None:
    """Return the manifests of a bundle by their paths, None if the directory is not a bundle."""
    if (path / _MANIFESTS_DIRECTORY).is_dir():
        return {f"{_MANIFESTS_DIRECTORY}/{name}": raw for name, raw in read_files(path / _MANIFESTS_DIRECTORY).items()}
    with disk_errors(path):
        is_bundle = any(map(_is_csv, sorted(path.iterdir())))
    return read_files(path) if is_bundle else None


def _is_csv(path: Path) -> bool:
    if path.suffix not in MANIFEST_EXTENSIONS or not path.is_file() or path.stat().st_size > MAX_BYTES:
        return False
    raw = path.read_bytes()
    if CSV_KIND.encode() not in raw:
        return False
    try:
        value = read_document(raw).value
    except InvalidDocument:
        return False
    return isinstance(value, dict) and value.get("kind") == CSV_KIND


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
        ImageToolsError: The image cannot be read or written.
    """
    image = tool.load(base)
    store = tool.push if push else tool.save
    with ScratchDirectory("opm-build-") as scratch:
        image = compress_layers(image, Path(scratch))
        if files:
            layer = tuple(LayerFile(path, content) for path, content in files.items())
            image = BuildSpec(layer, created=created, created_by="opm bundle pin").build_on(image, Path(scratch))
        return store(image, target, progress=progress).digest
