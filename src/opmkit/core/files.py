"""Atomic writes of several files, copies of directories, and errors of the operating system."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.errors import DiskError, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import BinaryIO

    from opmkit.core.hints import Hint


def write_files(directory: Path, files: Mapping[str, bytes | Path]) -> None:
    """Write files below ``directory``, by relative path, from bytes or from another file.

    Every file is written to a temporary directory before the first is moved, so that a full disk changes nothing. The
    mode of an existing file is retained.

    Raises:
        DiskError: A file cannot be written.
    """
    import shutil  # slow to import: most commands write no files

    from opmkit.core.scratch import ScratchDirectory

    with disk_errors(directory), ScratchDirectory(".opm-", directory) as scratch:
        staging = Path(scratch)
        for name, source in files.items():
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(source, Path):
                shutil.copyfile(source, staging / name)
            else:
                (staging / name).write_bytes(source)
            if (directory / name).exists():
                shutil.copymode(directory / name, staging / name)
        for name in files:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (staging / name).replace(directory / name)


def copy_tree(source: Path, target: Path) -> Path:
    """Copy a directory with its symbolic links, but without pipes, sockets and devices; return ``target``.

    Raises:
        OSError: A file cannot be read or written.
    """
    import shutil

    try:
        return Path(shutil.copytree(source, target, symlinks=True, ignore=_special_files))
    except shutil.Error as error:
        failed, _, cause = error.args[0][0]
        raise OSError(errno.EIO, cause, failed) from error


def _special_files(directory: str, names: Iterable[str]) -> list[str]:
    modes = {name: Path(directory, name).lstat().st_mode for name in names}
    return [
        name for name, mode in modes.items() if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
    ]


MAX_SETTINGS_SIZE = 16 << 20
"""Maximum size of files with settings, credentials or certificates, in bytes."""
_STORE = "OPM_STORE sets the directory of the embedded store"
_NOT_WRITABLE = f"use a directory that you can write to; {_STORE}"
_HINTS = {
    errno.EDQUOT: "free some space within your quota or use another disk",
    errno.EACCES: _NOT_WRITABLE,
    errno.EPERM: _NOT_WRITABLE,
    errno.EROFS: f"use a directory on a disk that is not read-only; {_STORE}",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: a parent of it is a file",
}


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raise a DiskError that names a file, by default ``path``, for an OSError of the operating system."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # an error that a library derives from OSError
            raise
        raise DiskError(f"{error.filename or path}: {error.strerror or error}", hint=_hint(error.errno)) from error


def _hint(number: int) -> Hint | str:
    """Return a hint for an error number of the operating system."""
    if number != errno.ENOSPC:
        return _HINTS.get(number, "")
    from opmkit.core.hints import CoreOperation, Hint  # slow to import: msgspec and dataclasses

    prune = Hint("empty the cache of the embedded image store with {}", CoreOperation.PRUNE_STORE)
    return Hint.any_of("free some space", "use another disk", prune)


def read_limited(path: Path, limit: int = MAX_SETTINGS_SIZE) -> bytes:
    """Return the content of a file that the user names, which can also be a pipe.

    Raises:
        LimitExceeded: The file is larger than ``limit`` bytes; no more are read.
        OSError: The file cannot be read, or the path contains characters that no path can have.
    """
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except ValueError as error:
        raise OSError(errno.EINVAL, "invalid path", str(path)) from error
    if len(content) > limit:
        raise LimitExceeded(f"{path}: larger than {limit} bytes", hint="check the path")
    return content


def open_regular(path: Path) -> BinaryIO:
    """Open a file of a tree for reading, without waiting for the writer of a pipe.

    Raises:
        DiskError: The path is a pipe, a socket, a device or a directory.
        OSError: The file cannot be opened.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise DiskError(f"{path}: not a regular file", hint="remove it from the directory")
    return path.open("rb")


def sync_to_disk(path: Path) -> None:
    """Wait until the content of a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_PREFIX, _SUFFIX = ".opm-", ".part"


def write_file(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write a file atomically, and create its parent directories. Raises OSError.

    Several writers of the same file do not disturb each other: the last one wins. Names of files in a text can have
    bytes that are not UTF-8, as ``os.fsdecode`` returns them.
    """
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(_SUFFIX, _PREFIX, path.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode(errors="surrogateescape") if isinstance(content, str) else content)
            os.fchmod(descriptor, mode)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def is_partial(name: str) -> bool:
    """Return whether a name is that of a file which `write_file` has not completed, and which is to be ignored."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


DIRECTORY_MODE, FILE_MODE = 0o700, 0o600


def make_directory(path: Path, mode: int = DIRECTORY_MODE) -> None:
    """Create a directory and its missing parents with a mode, as the XDG specification requires; raise OSError."""
    if not path.exists():
        make_directory(path.parent, mode)
        path.mkdir(mode, exist_ok=True)
