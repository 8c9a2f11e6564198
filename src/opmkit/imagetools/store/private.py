"""Files that only their user can read: modes, and a directory among the temporary files."""

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
    """Create a directory and its missing parents with a mode, as the XDG specification has it; raises OSError."""
    if not path.exists():
        make_directory(path.parent, mode)
        path.mkdir(mode, exist_ok=True)


def is_open(directory: Path) -> bool:
    """Return whether others have permissions for a directory of this user, unless its sticky bit says they should."""
    try:
        status = directory.stat()
    except OSError:
        return False
    return bool(status.st_mode & _OTHERS) and not status.st_mode & stat.S_ISVTX and status.st_uid == os.geteuid()


def restrict(root: Path) -> None:
    """Withdraw the permissions of others from a directory tree, from the root last; what others own stays as it is."""
    for directory, _, names in os.walk(root, topdown=False):
        _restrict(directory, names)


def _restrict(directory: str, names: list[str]) -> None:
    for path in (*(Path(directory, name) for name in names), Path(directory)):
        with suppress(OSError):
            mode = path.lstat().st_mode
            if mode & _OTHERS and not stat.S_ISLNK(mode):
                path.chmod(stat.S_IMODE(mode) & ~_OTHERS)


def private_directory() -> Path:
    """``TMPDIR/opmkit-UID``, made if it isn't there; nobody else may write to it.

    Raises StoreError where it can't be made, or is someone else's: whoever may write there could swap our files.
    """
    path = Path(tempfile.gettempdir(), f"opmkit-{os.getuid()}")
    with disk_errors(path):
        path.mkdir(DIRECTORY_MODE, exist_ok=True)
        status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise StoreError(
            f"{path} is no directory that is this user's alone",
            hint="remove it, or let TMPDIR name another directory",
        )
    return path
