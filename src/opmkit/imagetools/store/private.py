"""A directory of this user's in the directory for temporary files, for what has to outlive a process."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from opmkit.imagetools.errors import StoreError
from opmkit.imagetools.store.disk import disk_errors


def private_directory() -> Path:
    """``TMPDIR/opmkit-UID``, made if it isn't there; nobody else may write to it.

    Raises StoreError where it can't be made, or is someone else's: whoever may write there could swap our files.
    """
    path = Path(tempfile.gettempdir(), f"opmkit-{os.getuid()}")
    with disk_errors(path):
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise StoreError(
            f"{path} is no directory that is this user's alone",
            advice="remove it, or let TMPDIR name another directory",
        )
    return path
