"""The files of a catalog directory, at any depth, except those that ``.indexignore`` files exclude."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from opmkit.core.files import disk_errors
from opmkit.imagetools.store.layout_files import is_layout, layout_hint
from opmkit.index.errors import InvalidCatalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pathspec import GitIgnoreSpec

    Ignores: TypeAlias = tuple[tuple[str, GitIgnoreSpec], ...]
    """The patterns of each ``.indexignore`` file, with the path of its directory and a final slash, outermost first."""

IGNORE_FILE = ".indexignore"
MAX_IGNORE_FILE = 1 << 20
"""Bytes of an ``.indexignore`` file."""
MAX_DEPTH = 64
"""Depth of nested directories."""


def iter_catalog_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files sorted by path, each with its path relative to the root.

    A symbolic link is followed to a file below the root, and skipped otherwise. ``.indexignore`` files have the syntax
    of ``.gitignore`` and apply to everything below their directory.

    Raises:
        InvalidCatalog: The root is an OCI image layout, directories are nested too deeply, or an ``.indexignore`` file
            is too large or invalid.
        DiskError: A file or directory can't be read.
    """
    with disk_errors(root):
        if is_layout(root):
            raise InvalidCatalog(f"{root}: an OCI image layout, not a catalog directory", hint=layout_hint(str(root)))
        resolved = root.resolve(strict=True)
        for name, path in _walk(root, "", ()):
            if not path.is_symlink() or (path.is_file() and path.resolve().is_relative_to(resolved)):
                yield name, path


def is_ignored(root: Path, name: str) -> bool:
    """Return whether `iter_catalog_files` would exclude a file, which need not exist.

    Args:
        root: The root of the catalog.
        name: The path of the file relative to the root.
    """
    ignores: Ignores = ()
    prefix = ""
    *directories, file = name.split("/")
    for part in (*(f"{directory}/" for directory in directories), file):
        spec = _read_ignore_file(root / prefix / IGNORE_FILE)
        if spec is not None:
            ignores = (*ignores, (prefix, spec))
        prefix += part
        if part.rstrip("/") == IGNORE_FILE or _matches(prefix, ignores):
            return True
    return False


def _walk(directory: Path, prefix: str, ignores: Ignores) -> Iterator[tuple[str, Path]]:
    if prefix.count("/") > MAX_DEPTH:
        raise InvalidCatalog(
            f"{directory}: directories are nested more than {MAX_DEPTH} levels deep", hint="Move the catalog elsewhere."
        )
    spec = _read_ignore_file(directory / IGNORE_FILE)
    if spec is not None:
        ignores = (*ignores, (prefix, spec))
    with os.scandir(directory) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for entry in entries:
        path = f"{prefix}{entry.name}"
        is_directory = entry.is_dir(follow_symlinks=False)
        if entry.name == IGNORE_FILE or _matches(f"{path}/" if is_directory else path, ignores):
            continue
        if is_directory:
            yield from _walk(directory / entry.name, f"{path}/", ignores)
        elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
            yield path, directory / entry.name


def _read_ignore_file(path: Path) -> GitIgnoreSpec | None:
    if not path.is_file():
        return None
    if path.stat().st_size > MAX_IGNORE_FILE:
        raise InvalidCatalog(
            f"{path}: larger than {MAX_IGNORE_FILE} bytes", hint="List directories instead of single files."
        )
    from pathspec import GitIgnoreSpec  # imported late: most catalogs have no such file

    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise InvalidCatalog(f"{path}: invalid pattern: {error}", hint="Use the syntax of .gitignore.") from error


def _matches(path: str, ignores: Ignores) -> bool:
    """Return whether the last matching pattern excludes the path; patterns of deeper directories come later."""
    ignored = False
    for prefix, spec in ignores:
        include = spec.check_file(path.removeprefix(prefix)).include
        ignored = ignored if include is None else include
    return ignored
