"""Place copied files in the image, by the rules of COPY."""

from __future__ import annotations

import posixpath
import tarfile
import zlib
from dataclasses import dataclass, field
from lzma import LZMAError
from typing import TYPE_CHECKING

from opmkit.core.files import disk_errors
from opmkit.imagetools.layer import LayerFile
from opmkit.imagetools.layer.paths import ancestors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.dockerfile.context import BuildContext, ContextFile, ContextSource
    from opmkit.bundle.dockerfile.instructions import CopyInstruction

_SYSTEM_DIRECTORIES = frozenset(
    {
        *("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt", "proc"),
        *("root", "run", "sbin", "srv", "sys", "tmp", "usr", "var"),
    }
)
"""Directories of the Filesystem Hierarchy Standard, which may be links in a base image, or have other modes."""
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


@dataclass(slots=True)
class ImageLayout:
    """The files of an image, to which instructions are applied in order.

    Files have mode 0644, or 0755 if their owner can execute them, because version control keeps no other bits: the
    image does not depend on the umask of the user who checked the files out.
    """

    has_base: bool
    files: dict[str, LayerFile] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)

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
