"""Atomic writes of several files, and copies of directories."""

from __future__ import annotations

import errno
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def write_files(directory: Path, files: Mapping[str, bytes | Path]) -> None:
    """Write files below ``directory``, by relative path, from bytes or from another file.

    Every file is written to a temporary directory before the first is moved, so that a full disk changes nothing. The
    mode of an existing file is retained.

    Raises:
        StoreError: a file cannot be written.
    """
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
