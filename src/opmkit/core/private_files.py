"""Files that only their user can write to, the only ones that the embedded store and its caches are read from.

`distrust` decides which files others may have written; everything that reads the store asks it.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from opmkit.core.errors import DiskError
from opmkit.core.files import DIRECTORY_MODE, disk_errors

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0
_MAX_LINKS = 40
"""Links that Linux follows in a path."""


class UntrustedFile(DiskError):
    """A file or directory that another user may have written."""

    def __init__(self, path: str | Path, reason: str) -> None:
        """Describe the file, and why others may have written it."""
        super().__init__(
            f"{path}: not trusted: {reason}",
            hint="remove it, or let OPM_STORE or TMPDIR name a directory that only you can write to",
        )


def distrust(status: os.stat_result, *, shared: bool = False) -> str:
    """Return why another user may have written a file or the entries of a directory, or "" if none can.

    Root is trusted: a store in an image belongs to root, and is read by any user. Access control lists count, because
    the mode of the group is the most that they grant. The sticky bit does not: it allows others to add files. Where
    that is intended, as in ``/tmp``, ``shared`` ignores the mode.
    """
    if status.st_uid not in (os.geteuid(), _ROOT):
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & _WRITABLE and not (shared or stat.S_ISLNK(status.st_mode)):
        return "other users can write to it"
    return ""


def check_private(root: Path, directory: Path) -> None:
    """Raise UntrustedFile if another user may have written to a directory, or to one between it and ``root``.

    An empty directory of this user is made private instead. Directories that do not exist, or cannot be read, pass.

    Above ``root``, others may own and write to directories, such as the home directory of a pod: what they create in
    the place of ``root`` is theirs. Only their links are rejected, which could lead to other files of this user, what
    they have created in directories for temporary files, and directories of this user that they could have moved there:
    those that others can read, such as a checkout, whereas the store is private.
    """
    path, in_sticky, top = "", False, str(root)  # a Path would take longer than all else here
    with suppress(OSError):  # what cannot be read, is not
        _check_links(str(directory))
    with suppress(OSError):
        for name in str(directory).strip("/").split("/"):
            path = f"{path}/{name}"
            status = os.stat(path)  # noqa: PTH116
            inside = path == top or path.startswith(f"{top}/")
            is_sticky = bool(status.st_mode & stat.S_ISVTX and status.st_mode & _WRITABLE)
            reason = distrust(status, shared=is_sticky and not inside) if inside or in_sticky else ""
            if inside and not reason and status.st_mode & _OTHERS and _is_exposed(top):
                reason = "other users can read it and move it"
            if reason and not (inside and _make_private(path, status)):
                raise UntrustedFile(path, reason)
            in_sticky = is_sticky


def _is_exposed(path: str) -> bool:
    """Return whether other users can rename a file or directory, or one above it."""
    parents = Path(os.path.realpath(path)).parents
    with suppress(OSError):
        return any(distrust(status, shared=bool(status.st_mode & stat.S_ISVTX)) for status in map(Path.stat, parents))
    return True


def _check_links(path: str) -> None:
    """Raise UntrustedFile if a link on the way to a path, or on the way to where a link leads, belongs to others."""
    directory, names, links = "", path.split("/")[::-1], 0
    while names and links < _MAX_LINKS:
        name = names.pop()
        if name in ("", ".", ".."):
            directory = directory.rpartition("/")[0] if name == ".." else directory
            continue
        found = f"{directory}/{name}"
        status = os.lstat(found)
        if not stat.S_ISLNK(status.st_mode):
            directory = found
            continue
        if reason := distrust(status):
            raise UntrustedFile(found, reason)
        target, links = os.readlink(found), links + 1  # noqa: PTH115
        directory = "" if target.startswith("/") else directory
        names += target.split("/")[::-1]


def _make_private(path: str, status: os.stat_result) -> bool:
    """Restrict an empty directory of this user, such as ``mkdir`` creates with the umask 002; return whether it was."""
    if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
        return False
    with suppress(OSError):
        if not os.listdir(path):  # noqa: PTH208
            os.chmod(path, DIRECTORY_MODE)  # noqa: PTH101
            return True
    return False


def open_private(path: str | Path, *, has_digest: bool = False) -> int:
    """Open a file for reading and return its descriptor.

    The open file is checked, so that it cannot be replaced in between.

    Args:
        path: The file.
        has_digest: Whether its content is verified, so that it does not matter that it has other names as well: in a
            directory that was writable once, others can add names for files of this user.

    Raises:
        UntrustedFile: Another user may have written it, or it is not a regular file.
        OSError: It cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise UntrustedFile(path, "it is not a regular file") from error
        raise
    status = os.fstat(descriptor)
    reason = distrust(status) if stat.S_ISREG(status.st_mode) else "it is not a regular file"
    if status.st_nlink > 1 and not (reason or has_digest):
        reason = "it is a hard link"
    if reason:
        os.close(descriptor)
        raise UntrustedFile(path, reason)
    return descriptor


_reported: dict[Path, UntrustedFile] = {}


def warn_untrusted(store: Path, error: UntrustedFile) -> None:
    """Log, once for each store in a process, that it is not used."""
    if _reported.setdefault(store, error) is error:  # atomic: several threads can find the same
        import logging  # slow to import: short commands have nothing to log

        logging.getLogger(__name__).warning("%s; continuing without the store", error.message)


def is_shared(directory: Path) -> bool:
    """Return whether other users can read a directory of this user, but not move it.

    One with a sticky bit is meant to be shared.
    """
    try:
        status = directory.stat()
    except OSError:
        return False
    readable = bool(status.st_mode & _OTHERS) and not status.st_mode & stat.S_ISVTX
    return readable and status.st_uid == os.geteuid() and not distrust(status) and not _is_exposed(str(directory))


def restrict(root: Path) -> None:
    """Remove the permissions of other users from a directory tree, the root last.

    What others may have written is skipped: without the permissions, it would look trustworthy.
    """
    for directory, _, names in os.walk(root, topdown=False):
        for path in (*(Path(directory, name) for name in names), Path(directory)):
            with suppress(OSError):
                status = path.lstat()
                if status.st_mode & _OTHERS and not stat.S_ISLNK(status.st_mode) and not distrust(status):
                    path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)


def private_path() -> Path:
    """Return ``TMPDIR/opmkit-UID``, which may not exist or may belong to another user."""
    import tempfile  # slow to import: needed without a home directory, and for locks

    return Path(tempfile.gettempdir(), f"opmkit-{os.getuid()}")


def private_directory() -> Path:
    """Return ``TMPDIR/opmkit-UID``, which is created if it does not exist.

    Raises:
        DiskError: The directory cannot be created.
        UntrustedFile: Other users could write to it and replace files there.
    """
    path = private_path()
    with disk_errors(path):
        path.mkdir(DIRECTORY_MODE, exist_ok=True)
        status = path.lstat()
    reason = distrust(status) if stat.S_ISDIR(status.st_mode) else "it is not a directory"
    if reason:
        raise UntrustedFile(path, reason)
    return path
