"""Files and directories that only their user can access."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from opmkit.imagetools.errors import StoreError
from opmkit.imagetools.store.disk import disk_errors

DIRECTORY_MODE, FILE_MODE = 0o700, 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_directory(path: Path, mode: int = DIRECTORY_MODE) -> None:
    """Create a directory and its missing parents with a mode, as the XDG specification requires; raise OSError."""
    if not path.exists():
        make_directory(path.parent, mode)
        path.mkdir(mode, exist_ok=True)


def is_shared(directory: Path) -> bool:
    """Return whether other users can access a directory of this user; one with a sticky bit is meant to be shared."""
    try:
        status = directory.stat()
    except OSError:
        return False
    accessible = bool(status.st_mode & _OTHERS) and not status.st_mode & stat.S_ISVTX
    return accessible and status.st_uid == os.geteuid()


def restrict(root: Path) -> None:
    """Remove the permissions of other users from a directory tree, the root last; files of other users are skipped."""
    for directory, _, names in os.walk(root, topdown=False):
        _restrict_directory(directory, names)


def _restrict_directory(directory: str, names: list[str]) -> None:
    for path in (*(Path(directory, name) for name in names), Path(directory)):
        with suppress(OSError):
            mode = path.lstat().st_mode
            if mode & _OTHERS and not stat.S_ISLNK(mode):
                path.chmod(stat.S_IMODE(mode) & ~_OTHERS)


def private_directory() -> Path:
    """Return ``TMPDIR/opmkit-UID``, which is created if it does not exist.

    Raises:
        StoreError: The directory cannot be created, or other users could write to it and replace files there.
    """
    path = Path(tempfile.gettempdir(), f"opmkit-{os.getuid()}")
    with disk_errors(path):
        path.mkdir(DIRECTORY_MODE, exist_ok=True)
        status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise StoreError(
            f"{path} is not a directory that only this user can write to",
            hint="remove it, or set TMPDIR to another directory",
        )
    return path
