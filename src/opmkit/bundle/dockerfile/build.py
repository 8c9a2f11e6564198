"""Build specs of bundle images from Dockerfiles."""

from __future__ import annotations

import posixpath
import tarfile
import zlib
from lzma import LZMAError
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.dockerfile.context import BuildContext
from opmkit.bundle.dockerfile.instructions import read_dockerfile
from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.labels import CHANNELS, DEFAULT_CHANNEL, MANIFESTS, MEDIA_TYPE, METADATA, PACKAGE
from opmkit.bundle.metadata import read_metadata
from opmkit.bundle.unpack import CREATED_BY
from opmkit.core.files import disk_errors
from opmkit.documents.errors import DocumentError
from opmkit.imagetools.build_spec import BuildSpec
from opmkit.imagetools.layer import LayerFile
from opmkit.imagetools.layer.reader import ancestors
from opmkit.imagetools.reference import SCRATCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from opmkit.bundle.dockerfile.context import ContextFile, ContextSource
    from opmkit.bundle.dockerfile.instructions import CopyInstruction


class DockerfileBuild(Struct, frozen=True):
    """The build spec of an image, the name of its base image ("" without one), and warnings about the Dockerfile."""

    spec: BuildSpec
    base: str
    warnings: tuple[str, ...]


def dockerfile_build_spec(
    dockerfile: Path,
    context: Path,
    *,
    arguments: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    created: int = 0,
) -> DockerfileBuild:
    """Return the build spec of a bundle image, for any build tool; the same files give the same image.

    All files are in one layer, with normalized owners and times; see `ImageLayout` for their modes.

    Args:
        dockerfile: Path of the Dockerfile.
        context: Directory that contains the files to copy.
        arguments: Build arguments, by their names.
        labels: Labels to set after those of the Dockerfile.
        created: Creation time of the image in seconds since the epoch.

    Raises:
        InvalidDockerfile: If the Dockerfile is invalid, or requires a container engine.
        InvalidBundle: If an image without a base contains no manifests or no metadata.
        DiskError: If a file cannot be read.
    """
    parsed = read_dockerfile(dockerfile, arguments or {})
    build_context = BuildContext.open(context, dockerfile)
    layout = ImageLayout(has_base=parsed.base != SCRATCH)
    warnings = [f"{dockerfile}: the build argument {name} is not used" for name in parsed.unused_arguments]
    for instruction in parsed.copies:
        empty = layout.copy(instruction, build_context)
        warnings += [f"{instruction.location}: no files found in {name!r}" for name in empty]
    files = tuple(layout.files.values())
    all_labels = {**parsed.labels, **(labels or {})}
    ignore_file = build_context.ignore_file
    warnings += check_bundle(dockerfile, files, all_labels, has_base=layout.has_base, ignore_file=ignore_file)
    spec = BuildSpec(files, labels=all_labels, created=created, created_by=CREATED_BY)
    return DockerfileBuild(spec, parsed.base if layout.has_base else "", tuple(warnings))


_REQUIRED_LABELS = (MEDIA_TYPE, MANIFESTS, METADATA, PACKAGE, CHANNELS)
_ANNOTATED_LABELS = (*_REQUIRED_LABELS, DEFAULT_CHANNEL)
_MAX_METADATA_SIZE = 1 << 20


def check_bundle(
    dockerfile: Path,
    files: Iterable[LayerFile],
    labels: Mapping[str, str],
    *,
    has_base: bool,
    ignore_file: Path | None = None,
) -> list[str]:
    """Return warnings about missing labels, and about labels that differ from the annotations.

    Args:
        dockerfile: Path of the Dockerfile.
        files: Files of the image.
        labels: Labels of the image.
        has_base: Whether a base image may contain more files and labels, which are not checked.
        ignore_file: The file that may exclude files of the bundle.

    Raises:
        InvalidBundle: If there are no manifests, or no metadata.
        DiskError: If a file cannot be read.
    """
    if has_base:
        return []
    paths = {file.path: file for file in files}
    for directory in ("manifests", "metadata"):
        if not any(path.startswith(f"{directory}/") for path in paths):
            excluded = f"; {ignore_file} excludes files of the context" if ignore_file else ""
            raise InvalidBundle(
                f"{dockerfile}: the image has no files in /{directory}/",
                hint=f"copy the {directory} of the bundle to /{directory}/{excluded}",
            )
    warnings = [f"{dockerfile}: the label {name} is missing" for name in _REQUIRED_LABELS if not labels.get(name)]
    metadata = {path: _read(file) for path, file in paths.items() if path.startswith("metadata/")}
    try:
        annotations = read_metadata(metadata).labels
    except (BundleError, DocumentError) as error:
        return [*warnings, f"{dockerfile}: {error.message}"]
    differences = [
        f"{dockerfile}: the label {name} is {labels[name]!r}, but the annotation is {annotations.get(name, '')!r}"
        for name in _ANNOTATED_LABELS
        if name in labels and labels[name] != annotations.get(name, "")
    ]
    return warnings + differences


def _read(file: LayerFile) -> bytes:
    """Return the content of a file, which is truncated if it is too large for metadata."""
    if isinstance(file.source, bytes):
        return file.source
    with disk_errors(file.source), file.source.open("rb") as content:
        return content.read(_MAX_METADATA_SIZE)


_SYSTEM_DIRECTORIES = frozenset(
    {
        *("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt", "proc"),
        *("root", "run", "sbin", "srv", "sys", "tmp", "usr", "var"),
    }
)
"""Directories of the Filesystem Hierarchy Standard, which may be links in a base image, or have other modes."""
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class ImageLayout(Struct):
    """The files of an image, to which instructions are applied in order.

    Files have mode 0644, or 0755 if their owner can execute them, because version control keeps no other bits: the
    image does not depend on the umask of the user who checked the files out.
    """

    has_base: bool
    files: dict[str, LayerFile] = {}
    directories: set[str] = set()

    def copy(self, instruction: CopyInstruction, context: BuildContext) -> list[str]:
        """Apply an instruction, and return the sources that are directories without files.

        Raises:
            InvalidDockerfile: If the instruction is invalid or unsupported for these files.
            DiskError: If a file cannot be read.
        """
        location = instruction.location
        sources = [found for source in instruction.sources for found in context.find(location, source)]
        is_directory = instruction.destination.endswith(("/", "/.")) or instruction.destination == "."
        if len(sources) > 1 and not is_directory:
            raise location.invalid(
                f"the destination {instruction.destination!r} of several files is not a directory",
                hint="add a slash to its end",
            )
        destination = posixpath.normpath(f"/{instruction.destination}").lstrip("/")
        for source in sources:
            if not source.is_directory:
                self._check_file(instruction, source.files[0], destination, is_directory=is_directory)
            elif destination:
                self.directories.update((*ancestors(destination), destination))
            for target, file in self._targets(source, destination, is_directory=is_directory):
                self._check_target(instruction, target, source)
                self._add(instruction, target, file)
        return [source.name for source in sources if not source.files]

    def _targets(
        self, source: ContextSource, destination: str, *, is_directory: bool
    ) -> Iterator[tuple[str, ContextFile]]:
        """Yield the files of a source with their paths in the image."""
        into = source.is_directory or is_directory or not destination or destination in self.directories
        for file in source.files:
            yield posixpath.join(destination, file.name) if into else destination, file

    def _add(self, instruction: CopyInstruction, target: str, file: ContextFile) -> None:
        parents = list(ancestors(target))
        conflict = next((path for path in parents if path in self.files), target if target in self.directories else "")
        if conflict:
            raise instruction.location.invalid(f"/{conflict}: both a file and a directory")
        self.directories.update(parents)
        mode = 0o755 if file.is_executable else 0o644
        self.files[target] = LayerFile(target, file.path, mode if instruction.mode is None else instruction.mode)

    def _check_file(
        self, instruction: CopyInstruction, file: ContextFile, destination: str, *, is_directory: bool
    ) -> None:
        """Check the copy of a single file, which depends on what the image contains, and may be an archive."""
        if self.has_base and not is_directory and "/" not in destination:
            raise instruction.location.unsupported(
                f"destination '/{destination}', which may be a directory of the base image",
                hint="add a slash to its end, or the name of the file",
            )
        if instruction.extracts_archives and _is_archive(file):
            raise instruction.location.unsupported(f"archive '{file.path}'", hint="copy it with COPY or extract it")

    def _check_target(self, instruction: CopyInstruction, target: str, source: ContextSource) -> None:
        top = target.partition("/")[0]
        if self.has_base and top in _SYSTEM_DIRECTORIES:
            raise instruction.location.unsupported(
                f"destination below /{top} of a base image", hint="copy to another directory"
            )
        if source.is_directory and instruction.mode not in {None, 0o755}:
            raise instruction.location.unsupported(f"mode of the directory '{source.name}'", hint="copy its files")


def _is_archive(file: ContextFile) -> bool:
    """Return whether ADD extracts a file: a tar archive, compressed or not. Files in zstd are taken for archives."""
    with disk_errors(file.path):
        with file.path.open("rb") as content:
            if content.read(len(_ZSTD_MAGIC)) == _ZSTD_MAGIC:
                return True
        try:
            return tarfile.is_tarfile(file.path)
        except (tarfile.TarError, EOFError, zlib.error, LZMAError):
            return False
