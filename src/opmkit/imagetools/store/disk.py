"""What goes wrong with a disk, told so that a person can help."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import StoreError
from opmkit.imagetools.hints import Hint, Operation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HINTS: dict[int, Hint | str] = {
    errno.ENOSPC: Hint.any_of(
        "free some space",
        "use another disk",
        Hint("empty the cache of the embedded image store with {}", Operation.PRUNE_STORE),
    ),
    errno.EDQUOT: "free some space within your quota, or put it on another disk",
    errno.EACCES: "choose a directory that you may write; OPM_STORE names that of the embedded store",
    errno.EPERM: "choose a directory that you may write; OPM_STORE names that of the embedded store",
    errno.EROFS: "choose a directory on a disk that isn't read-only; OPM_STORE names that of the embedded store",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "a part of the path is a file: choose another directory",
}


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an OSError of the operating system into a StoreError that names the path."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # some libraries derive errors of their own from OSError
            raise
        hint = _HINTS.get(error.errno, "")
        raise StoreError(f"{error.filename or path}: {error.strerror or error}", hint=hint) from error
