"""Atomic writes of several files, copies of directories, and errors of the operating system."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from opmkit.core.errors import DiskError, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import BinaryIO

    from opmkit.core.hints import Hint

_IGNORE_FILE = ".indexignore"
_REPLACE_LINK = "replace it by what it refers to"


def write_files(directory: Path, files: Mapping[str, bytes | Path]) -> None:
    """Write files below a directory, by relative path, from bytes or from another file; see `write_trees`."""
    write_trees({directory: files})


def write_trees(trees: Mapping[Path, Mapping[str, bytes | Path]]) -> None:
    """Write files below several directories, which need not exist: all of them or none.

    Every file is written to a temporary directory before the first is moved, so that a full disk changes nothing; if
    one cannot be moved, those before it are restored. The mode of an existing file is retained. A link in place of a
    file is replaced. Loaders of catalogs ignore the temporary directory.

    Args:
        trees: For each directory the files by relative path, as bytes or as another file to copy with its mode.

    Raises:
        DiskError: A file cannot be written, or a symbolic link leads out of its directory, see also `check_output`.
    """
    from opmkit.core.scratch import ScratchDirectory  # slow to import: most commands write no files

    for directory in trees:
        check_output(directory)
    with ExitStack() as created, ExitStack() as stack:
        moves: list[_Move] = []
        for directory, files in trees.items():
            with disk_errors(directory):
                _make_parents(directory.absolute(), created)
                staging = Path(stack.enter_context(ScratchDirectory(".opm-", directory)))
                (staging / _IGNORE_FILE).write_text("*\n")
                for number, (name, source) in enumerate(files.items()):
                    moves.append(_stage(staging / str(number), directory, name, source))
        _run_moves(moves)
        created.pop_all()


class _Move(NamedTuple):
    """A staged file, its target, and where the file that it replaces is retained until all are moved."""

    staged: Path
    target: Path
    backup: Path


def _stage(staged: Path, directory: Path, name: str, source: bytes | Path) -> _Move:
    import shutil

    target = directory / name
    resolve_below(target.parent, directory)
    with _naming(target, staged):
        if isinstance(source, Path):
            shutil.copy(source, staged)
        else:
            staged.write_bytes(source)
    if target.is_dir() and not target.is_symlink():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if target.exists():
        shutil.copymode(target, staged)
    return _Move(staged, target, staged.with_suffix(".old"))


@contextmanager
def _naming(path: Path, temporary: Path) -> Iterator[None]:
    """Raise errors of a temporary file with the name of the file that it is for."""
    try:
        yield
    except OSError as error:
        if error.errno is None or str(temporary) not in (error.filename or str(temporary), error.filename2):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def _run_moves(moves: Iterable[_Move]) -> None:
    """Move all files to their targets; after an error or a signal, restore what was there before."""
    undo = ExitStack()
    with disk_errors(Path()), undo:
        for move in moves:
            _make_parents(move.target.parent, undo)
            if os.path.lexists(move.target):
                _back_up(move)
                undo.callback(_restore, move)
            else:
                undo.callback(_remove, move.target)
            with _naming(move.target, move.staged):
                move.staged.replace(move.target)
        undo.pop_all()


def _make_parents(directory: Path, undo: ExitStack) -> None:
    if not directory.is_dir():
        _make_parents(directory.parent, undo)
        directory.mkdir(exist_ok=True)
        undo.callback(_remove_directory, directory)


def _back_up(move: _Move) -> None:
    import shutil

    try:
        os.link(move.target, move.backup, follow_symlinks=False)
    except OSError:  # the file system has no hard links
        shutil.copy2(move.target, move.backup, follow_symlinks=False)


def _restore(move: _Move) -> None:
    with suppress(OSError):
        move.backup.replace(move.target)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _remove_directory(path: Path) -> None:
    with suppress(OSError):
        path.rmdir()


def resolve_below(path: Path, root: Path) -> Path:
    """Return a path without symbolic links; raise DiskError if it is not below ``root``, to which links may lead."""
    resolved = path.resolve()
    if not resolved.is_relative_to(root.resolve()):
        if not is_below(path, root.absolute()):
            raise DiskError(f"{path}: outside of {root}", hint=f"choose a path below {root}")
        raise DiskError(f"{path}: refusing to follow a symbolic link that leads out of {root}", hint=_REPLACE_LINK)
    return resolved


def resolve_named(path: Path) -> Path:
    """Return a file that the user names without symbolic links, see `resolve_below`.

    Links may lead elsewhere in the working directory, which may be a checkout of untrusted files; those of a file that
    is not below it only next to it.
    """
    return resolve_below(path, Path.cwd() if is_below(path, Path.cwd()) else path.parent)


def is_below(path: Path, root: Path) -> bool:
    """Return whether a path is written as one below ``root``, to wherever links lead."""
    return Path(os.path.abspath(path)).is_relative_to(root)  # noqa: PTH100 - removes ".." without following links


def check_output(path: Path) -> None:
    """Raise DiskError if a path below the working directory leads out of it by a symbolic link.

    Every writer calls this for what a user names, before it creates anything: a checkout can contain links. A path
    outside of the working directory can be any.
    """
    if is_below(path, Path.cwd()):
        resolve_below(path, Path.cwd())


def make_output_directory(path: Path) -> None:
    """Create a directory to write to, and its missing parents, see `check_output`; raise OSError."""
    check_output(path)
    path.mkdir(parents=True, exist_ok=True)


def refuse_links(root: Path, path: Path) -> None:
    """Raise DiskError if ``path`` below ``root``, or a directory between them, is a symbolic link."""
    for part in (path, *path.parents):
        if part == root:
            return
        if part.is_symlink():
            raise DiskError(f"{part}: refusing to follow a symbolic link", hint=_REPLACE_LINK)


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
    errno.EROFS: f"use a directory on a disk that is not read-only; {_STORE}",
    errno.ENOENT: "check the path",
    errno.EISDIR: "name a file instead of the directory",
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
        hint = _hint(error.errno, Path(os.fsdecode(error.filename or path)))
        raise DiskError(f"{error.filename or path}: {error.strerror or error}", hint=hint) from error


def permission_hint(path: Path) -> str:
    """Return a hint for a denied permission: to make a file readable, or to choose a path that is writable."""
    if not os.access(path.parent, os.X_OK):
        return f"make the directory {path.parent} accessible to this user"
    if not os.path.lexists(path) or os.access(path, os.R_OK):
        return _NOT_WRITABLE
    return "make the file readable for this user, as with 'chmod u+r'"


def _hint(number: int, path: Path) -> Hint | str:
    """Return a hint for an error number of the operating system."""
    if number in (errno.EACCES, errno.EPERM):
        return permission_hint(path)
    if number != errno.ENOSPC:
        return _HINTS.get(number, "")
    from opmkit.core.hints import CoreOperation, Hint  # slow to import: msgspec and dataclasses

    prune = Hint("empty the cache of the embedded image store with {}", CoreOperation.PRUNE_STORE)
    return Hint.any_of("free some space", "use another disk", prune)


def read_limited(path: Path, limit: int = MAX_SETTINGS_SIZE, *, regular: bool = False) -> bytes:
    """Return the content of a file that the user names, which can also be a pipe unless it must be ``regular``.

    Files that a checkout may contain must be: a pipe or a terminal that one of its links leads to would be waited for.

    Raises:
        LimitExceeded: The file is larger than ``limit`` bytes; no more are read.
        DiskError: The file must be regular, and is not.
        OSError: The file cannot be read, or the path contains characters that no path can have.
    """
    try:
        with open_regular(path) if regular else path.open("rb") as file:
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
    require_regular(path)
    return path.open("rb")


def require_regular(path: Path) -> None:
    """Raise DiskError for a pipe, a socket, a device or a directory, and OSError if nothing is there."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise DiskError(f"{path}: not a regular file", hint="remove it, or replace it by a regular file")


def sync_to_disk(path: Path) -> None:
    """Wait until the content of a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_PREFIX, _SUFFIX = ".opm-", ".part"


def write_file(path: Path, content: str | bytes, *, mode: int = 0o644, root: Path | None = None) -> None:
    """Write a file atomically, and create its parent directories. Raises OSError.

    Several writers of the same file do not disturb each other: the last one wins. Names of files in a text can have
    bytes that are not UTF-8, as ``os.fsdecode`` returns them. Links must not lead out of ``root``, see also
    `check_output`.
    """
    if root:
        resolve_below(path.parent, root)
    make_output_directory(path.parent)
    _remove_partial(path.parent)
    descriptor, part = _new_partial(path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode(errors="surrogateescape") if isinstance(content, str) else content)
            file.flush()
            os.fchmod(descriptor, mode)
            with _naming(path, part):
                part.replace(path)  # while it is locked
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _new_partial(directory: Path) -> tuple[int, Path]:
    """Create a temporary file, and lock it for as long as it is open."""
    import tempfile

    while True:
        descriptor, name = tempfile.mkstemp(_SUFFIX, _PREFIX, directory)
        with suppress(OSError):  # a file system without locks
            if not _lock_partial(descriptor) or not os.path.lexists(name):
                os.close(descriptor)  # another process removed it before it was locked
                continue
        return descriptor, Path(name)


def _remove_partial(directory: Path) -> None:
    """Remove the temporary files of processes that were killed."""
    for path in [path for path in directory.iterdir() if is_partial(path.name)]:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if _lock_partial(descriptor):
                    path.unlink()
            finally:
                os.close(descriptor)


def _lock_partial(descriptor: int) -> bool:
    """Lock a file, and return False if another process has locked it; raise OSError if that cannot be known."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_partial(name: str) -> bool:
    """Return whether a name is that of a file which `write_file` has not completed, and which is to be ignored."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


DIRECTORY_MODE, FILE_MODE = 0o700, 0o600


def make_directory(path: Path, mode: int = DIRECTORY_MODE) -> None:
    """Create a directory and its missing parents with a mode, as the XDG specification requires; raise OSError."""
    if not path.exists():
        make_directory(path.parent, mode)
        path.mkdir(mode, exist_ok=True)
