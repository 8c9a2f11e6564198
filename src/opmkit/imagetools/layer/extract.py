"""The files of an image on disk, nothing of it outside the directory it goes to."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.layer.limits import ON_DISK, Limits, Meter
from opmkit.imagetools.layer.paths import ancestors, below, link_target, normal, touches
from opmkit.imagetools.layer.reader import Entry, LayerReader, LayerSource
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def extract_tree(
    layers_bottom_first: Iterable[LayerSource],
    destination: Path,
    prefixes: Sequence[str] = ("",),
    limits: Limits = ON_DISK,
) -> None:
    """Write what is at or under the prefixes below ``destination``, which no one else may be writing to.

    Owners and set-uid bits are dropped, devices and pipes left out; the caller can delete all of it. Symbolic links
    stay links, led to the same place under ``destination``, and are never followed for writing: a file below one
    replaces it by a directory. Raises InvalidImage and LimitExceeded, which name the layer, and StoreError; what is
    written by then isn't verified and has to be thrown away.
    """
    meter = Meter(limits)
    wanted = normal(prefixes)
    with disk_errors(destination):
        destination.mkdir(parents=True, exist_ok=True)
        directories: set[str] = set()
        for descriptor, opener in layers_bottom_first:
            with LayerReader(descriptor, opener, meter) as layer:
                unpacked = _Unpacked(destination.resolve(), layer, directories)
                for entry in layer:
                    if touches(entry.path, wanted):
                        unpacked.apply(entry, keep=any(below(entry.path, prefix) for prefix in wanted))


class _Unpacked:
    """A layer being unpacked over those under it."""

    def __init__(self, root: Path, layer: LayerReader, directories: set[str]) -> None:
        self._root = root
        self._layer = layer
        self._directories = directories  # known to exist and to be no links; shared by the layers of an image
        self._written: set[str] = set()
        self._emptied: set[str] = set()

    def apply(self, entry: Entry, *, keep: bool) -> None:
        """Do what an entry says; without ``keep`` only what it takes away from the layers under this one."""
        if entry.kind in {"whiteout", "opaque"}:
            self._clear(entry.path, itself=entry.kind == "whiteout")
            return
        if entry.kind != "directory":
            self._remove(entry.path)
        if not keep:
            return
        self._layer.keep(entry)
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
            path.symlink_to(os.path.relpath(self._root / link_target(entry.path, entry.target), path.parent))
        elif entry.kind == "hardlink":
            target = self._layer.checked_path(entry.target)
            if self._is_real(target) and _is(self._root / target, stat.S_ISREG):
                path.hardlink_to(self._root / target)

    def _write(self, entry: Entry, path: Path) -> None:
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
        mode = _mode(path) if self._is_real(name) else 0
        if stat.S_ISDIR(mode):
            shutil.rmtree(path)
            self._directories.clear()
        elif mode:
            path.unlink()

    def _clear(self, name: str, *, itself: bool) -> None:
        """Remove what lower layers have below a path, and ``itself``; what this layer has written there stays."""
        path = self._root / name
        if not self._is_real(name):
            return
        doomed = [path] if itself else []
        if self._emptied.isdisjoint([*ancestors(name), name]) and _is(path, stat.S_ISDIR):
            self._emptied.add(name)
            inside = os.walk(path, topdown=False)
            doomed = [Path(directory, found) for directory, names, files in inside for found in names + files] + doomed
        if doomed:
            self._directories.clear()
        for found in doomed:
            if found.relative_to(self._root).as_posix() in self._written:
                continue
            if _is(found, stat.S_ISDIR):
                with suppress(OSError):  # not empty: this layer has put something there
                    found.rmdir()
            else:
                found.unlink(missing_ok=True)

    def _is_real(self, name: str) -> bool:
        """Whether all above the path are directories, and none a link to one."""
        return all(map(self._is_directory, ancestors(name)))

    def _is_directory(self, name: str) -> bool:
        if name not in self._directories and _is(self._root / name, stat.S_ISDIR):
            self._directories.add(name)
        return name in self._directories


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    return kind(_mode(path))


def _mode(path: Path) -> int:
    """Return the mode of what is at a path, 0 for nothing."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
