"""Changes of template files: all of them or none, without losing changes of other writers."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from opmkit.core.files import disk_errors, read_limited, write_files
from opmkit.core.locks import locked_directory
from opmkit.index.errors import CatalogError
from opmkit.index.templates.document import MAX_TEMPLATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

MAX_ATTEMPTS = 10
"""Attempts to edit files that other programs keep changing."""


def change_files(paths: Mapping[str, Path], edit: Callable[[Mapping[str, bytes]], Mapping[str, bytes]]) -> None:
    """Edit files in one directory; if another program changes one in the meantime, edit them again.

    Args:
        paths: The files by their names in messages. A file need not exist; its content is empty then.
        edit: Returns the new content of the files by name; those that it omits do not change.

    Raises:
        CatalogError: The files keep changing.
        DiskError: A file cannot be read or written.
    """
    for _ in range(MAX_ATTEMPTS):
        before = {name: read_template(path) for name, path in paths.items()}
        after = {name: content for name, content in edit(before).items() if content != before[name]}
        if not after or _replace(paths, before, after):
            return
    names = ", ".join(paths)
    raise CatalogError(f"{names}: other programs keep changing it", hint="wait for the other programs")


def read_template(path: Path) -> bytes:
    """Return the content of a template, b"" if it does not exist.

    Raises:
        LimitExceeded: The file is too large.
        DiskError: The file cannot be read.
    """
    with disk_errors(path):
        if not path.exists():
            return b""
        return read_limited(path, MAX_TEMPLATE)


def _replace(paths: Mapping[str, Path], before: Mapping[str, bytes], after: Mapping[str, bytes]) -> bool:
    """Write files unless one has changed; return whether they are written. Symbolic links are followed."""
    targets = {name: paths[name].resolve() for name in after}
    directories = sorted({target.parent for target in targets.values()})
    with disk_errors(directories[0]):
        for directory in directories:
            directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for directory in directories:  # without locks, the comparison before the write remains
            stack.enter_context(locked_directory(directory))
        if any(read_template(paths[name]) != content for name, content in before.items()):
            return False
        for directory in directories:
            files = {target.name: after[name] for name, target in targets.items() if target.parent == directory}
            write_files(directory, files)
    return True
