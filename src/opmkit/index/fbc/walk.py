"""The files of a catalog directory: all there are at any depth, but those that ``.indexignore`` files name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.errors import InvalidCatalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".indexignore"
MAX_IGNORE = 1 << 20
"""Bytes that an ``.indexignore`` file may have."""
MAX_DEPTH = 64
"""Directories within directories."""


def iter_catalog_files(root: Path) -> Iterator[tuple[str, Path]]:
    """The files, in the order of their paths, each with its path from the root.

    A link is followed to a file below the root, and passed over otherwise. ``.indexignore`` files have the syntax of
    ``.gitignore`` and hold for all below their directory.

    Raises:
        InvalidCatalog: for directories too deep, or an ``.indexignore`` file too large.
        StoreError: if something can't be read.
    """
    with disk_errors(root):
        resolved = root.resolve(strict=True)
        for name, path in _walk(root, "", ()):
            if not path.is_symlink() or (path.is_file() and path.resolve().is_relative_to(resolved)):
                yield name, path


def is_ignored(root: Path, name: str) -> bool:
    """Whether a file of that path from the root, which need not be there, would not be read as one of the catalog."""
    ignores: tuple[tuple[str, GitIgnoreSpec], ...] = ()
    prefix = ""
    *directories, file = name.split("/")
    for part in (*(f"{each}/" for each in directories), file):
        own = _ignores(root / prefix / IGNORE_FILE)
        if own is not None:
            ignores = (*ignores, (prefix, own))
        prefix += part
        if part.rstrip("/") == IGNORE_FILE or _is_ignored(prefix, ignores):
            return True
    return False


def _walk(directory: Path, prefix: str, ignores: tuple[tuple[str, GitIgnoreSpec], ...]) -> Iterator[tuple[str, Path]]:
    if prefix.count("/") > MAX_DEPTH:
        raise InvalidCatalog(
            f"{directory} is deeper than {MAX_DEPTH} directories", advice="Keep the catalog elsewhere."
        )
    own = _ignores(directory / IGNORE_FILE)
    if own is not None:
        ignores = (*ignores, (prefix, own))
    with os.scandir(directory) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = f"{prefix}{entry.name}"
        is_directory = entry.is_dir(follow_symlinks=False)
        if entry.name == IGNORE_FILE or _is_ignored(f"{path}/" if is_directory else path, ignores):
            continue
        if is_directory:
            yield from _walk(directory / entry.name, f"{path}/", ignores)
        elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
            yield path, directory / entry.name


def _ignores(path: Path) -> GitIgnoreSpec | None:
    if not path.is_file():
        return None
    if path.stat().st_size > MAX_IGNORE:
        raise InvalidCatalog(f"{path} has more than {MAX_IGNORE} bytes", advice="Name directories instead of files.")
    from pathspec import GitIgnoreSpec  # most catalogs do without

    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise InvalidCatalog(
            f"{path} has a pattern that is none: {error}", advice="Write it as in .gitignore."
        ) from error


def _is_ignored(path: str, ignores: tuple[tuple[str, GitIgnoreSpec], ...]) -> bool:
    """Whether the last pattern that matches says so; those of a directory further down come later."""
    ignored = False
    for prefix, spec in ignores:
        said = spec.check_file(path.removeprefix(prefix)).include
        ignored = ignored if said is None else said
    return ignored
