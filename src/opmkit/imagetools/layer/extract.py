"""Extract the files of an image to disk, and nothing outside the destination directory."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.files import disk_errors
from opmkit.imagetools.layer.limits import DISK_LIMITS, Limits, LimitTracker
from opmkit.imagetools.layer.reader import (
    LayerEntry,
    LayerReader,
    ancestors,
    is_related,
    is_within,
    normalize_prefixes,
    resolve_link,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.imagetools.layer.limits import LayerSource


def extract_tree(
    layers_bottom_first: Iterable[LayerSource],
    destination: Path,
    prefixes: Sequence[str] = ("",),
    limits: Limits = DISK_LIMITS,
) -> None:
    """Extract the files at or below the prefixes into ``destination``, which no other process may write to.

    Owners and setuid bits are dropped, devices and named pipes are skipped, and the caller may delete every file.
    Symbolic links are rewritten to resolve below ``destination``. They are never followed when writing: a file below
    a link replaces the link with a directory.

    Raises:
        InvalidImage: A layer is damaged or unsafe. What was extracted so far is not verified; delete it.
        LimitExceeded: The layers exceed a limit.
        DiskError: A file cannot be written.
    """
    tracker = LimitTracker(limits)
    wanted = normalize_prefixes(prefixes)
    with disk_errors(destination):
        destination.mkdir(parents=True, exist_ok=True)
        directories: set[str] = set()
        for descriptor, opener in layers_bottom_first:
            with LayerReader(descriptor, opener, tracker) as layer:
                extractor = _LayerExtractor(destination.resolve(), layer, directories)
                for entry in layer:
                    if is_related(entry.path, wanted):
                        extractor.apply(entry, keep=any(is_within(entry.path, prefix) for prefix in wanted))


class _LayerExtractor:
    """Extracts one layer over the files of the layers below it."""

    def __init__(self, root: Path, layer: LayerReader, directories: set[str]) -> None:
        self._root = root
        self._layer = layer
        self._directories = directories  # known to exist and not to be links; shared by the layers of an image
        self._written: set[str] = set()
        self._emptied: set[str] = set()

    def apply(self, entry: LayerEntry, *, keep: bool) -> None:
        """Apply an entry; without ``keep`` only remove what it hides of lower layers."""
        if entry.kind in {"whiteout", "opaque"}:
            self._remove_lower(entry.path, including_itself=entry.kind == "whiteout")
            return
        if entry.kind != "directory":
            self._remove(entry.path)
        if not keep:
            return
        self._layer.count_extracted(entry)
        self._written.add(entry.path)
        for directory in ancestors(entry.path):
            self._make_directory(directory)
        path = self._root / entry.path
        if entry.kind == "directory":
            self._make_directory(entry.path)
            path.chmod(entry.mode & 0o777 | stat.S_IRWXU)
        elif entry.kind == "file":
            self._write(entry, path)
        elif entry.kind == "symlink":
            path.symlink_to(os.path.relpath(self._root / resolve_link(entry.path, entry.target), path.parent))
        elif entry.kind == "hardlink":
            target = self._layer.checked_path(entry.target)
            if self._has_no_links(target) and stat.S_ISREG(_mode(self._root / target)):
                path.hardlink_to(self._root / target)

    def _write(self, entry: LayerEntry, path: Path) -> None:
        with path.open("xb") as output:
            output.writelines(self._layer.content(entry))
            os.fchmod(output.fileno(), entry.mode & 0o777 | stat.S_IRUSR | stat.S_IWUSR)

    def _make_directory(self, name: str) -> None:
        if not self._is_directory(name):
            path = self._root / name
            path.unlink(missing_ok=True)
            path.mkdir()
            self._directories.add(name)

    def _remove(self, name: str) -> None:
        path = self._root / name
        mode = _mode(path) if self._has_no_links(name) else 0
        if stat.S_ISDIR(mode):
            shutil.rmtree(path)
            self._directories.clear()
        elif mode:
            path.unlink()

    def _remove_lower(self, name: str, *, including_itself: bool) -> None:
        """Remove what lower layers have below a path, but nothing that this layer has written."""
        path = self._root / name
        if not self._has_no_links(name):
            return
        hidden = [path] if including_itself else []
        if self._emptied.isdisjoint([*ancestors(name), name]) and stat.S_ISDIR(_mode(path)):
            self._emptied.add(name)
            tree = os.walk(path, topdown=False)
            hidden = [Path(directory, child) for directory, names, files in tree for child in names + files] + hidden
        if hidden:
            self._directories.clear()
        for child in hidden:
            if child.relative_to(self._root).as_posix() in self._written:
                continue
            if stat.S_ISDIR(_mode(child)):
                with suppress(OSError):  # not empty: it contains files of this layer
                    child.rmdir()
            else:
                child.unlink(missing_ok=True)

    def _has_no_links(self, name: str) -> bool:
        """Return whether everything above the path is a directory, not a link to one."""
        return all(map(self._is_directory, ancestors(name)))

    def _is_directory(self, name: str) -> bool:
        if name not in self._directories and stat.S_ISDIR(_mode(self._root / name)):
            self._directories.add(name)
        return name in self._directories


def _mode(path: Path) -> int:
    """Return the mode of the file at a path, without following a link, or 0 if it does not exist."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
