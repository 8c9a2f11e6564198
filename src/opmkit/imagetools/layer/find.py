"""Fetching one file out of an image without reading more layers than it takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.layer.limits import ON_DISK, Limits, Meter
from opmkit.imagetools.layer.paths import HOPS, ancestors, below, link_target, normal
from opmkit.imagetools.layer.reader import Entry, LayerReader, LayerSource
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class FoundFile:
    """Where a file was found: the position of its layer, and whether that layer has nothing else in it."""

    layer: int
    alone: bool


def find_file(
    layers_top_first: Sequence[LayerSource], path: str, destination: Path, limits: Limits = ON_DISK
) -> FoundFile | None:
    """Copy the regular file that an image has at ``path`` to ``destination``.

    Gives where it is in ``layers_top_first``, or None if there is no such file. Layers under that one
    aren't opened. Links are followed within the image. ``destination`` appears whole and verified or not at all.
    Raises InvalidImage and LimitExceeded, which name the layer, and StoreError.
    """
    search = _Search(normal((path,))[0], Meter(limits))
    start = 0
    for _ in range(HOPS):
        for position in range(start, len(layers_top_first)):
            outcome = search.look(layers_top_first[position], destination)
            if outcome.found:
                return FoundFile(position, outcome.alone)
            if outcome.leads_to is not None:
                search = _Search(outcome.leads_to, search.meter)
                start = position if outcome.in_same_layer else 0
                break
            if outcome.hidden:
                return None
        else:
            return None
    raise InvalidImage(f"{path!r} is a link that leads round in circles", hint="the image is damaged: build it anew")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a layer says of the path: there it is, look elsewhere, or what lower layers say doesn't count."""

    found: bool = False
    alone: bool = False
    hidden: bool = False
    leads_to: str | None = None
    in_same_layer: bool = False


@dataclass(slots=True)
class _Search:
    path: str
    meter: Meter
    directories: set[str] = field(default_factory=set)  # above the path, by upper layers; a link there doesn't count

    def look(self, source: LayerSource, destination: Path) -> _Outcome:
        """Read one layer to its end; the file is in place only then."""
        descriptor, opener = source
        outcome = _Outcome()
        above = tuple(ancestors(self.path))
        directories: set[str] = set()
        alone = True
        with (
            disk_errors(destination),
            ScratchDirectory(".opm-find-", destination.parent) as scratch,
            LayerReader(descriptor, opener, self.meter) as layer,
        ):
            copy = Path(scratch, "file")
            for entry in layer:
                directories.update(part for part in above if _is_directory(entry, part))
                if entry.path == self.path:
                    outcome = self._at_path(entry, layer, outcome, copy)
                elif entry.path in above or not entry.path:
                    outcome = self._above(entry, outcome)
                alone &= entry.path == self.path or (entry.kind == "directory" and below(self.path, entry.path))
            if outcome.found:
                copy.replace(destination)
        self.directories |= directories
        return replace(outcome, alone=alone)

    def _at_path(self, entry: Entry, layer: LayerReader, before: _Outcome, copy: Path) -> _Outcome:
        if entry.kind == "file":
            layer.keep(entry)
            with copy.open("wb") as output:
                for data in layer.content(entry):
                    output.write(data)
            return _Outcome(found=True)
        if entry.kind == "symlink":
            return _Outcome(leads_to=link_target(entry.path, entry.target))
        if entry.kind == "hardlink":
            return _Outcome(leads_to=layer.checked_path(entry.target), in_same_layer=True)
        if entry.kind in {"whiteout", "opaque"}:
            return replace(before, hidden=True)
        return _Outcome(hidden=True)

    def _above(self, entry: Entry, before: _Outcome) -> _Outcome:
        if entry.kind == "directory":
            return before
        if entry.kind == "symlink" and entry.path not in self.directories and not before.found:
            rest = self.path[len(entry.path) :]
            return replace(before, leads_to=(link_target(entry.path, entry.target) + rest).lstrip("/"))
        return replace(before, hidden=True)


def _is_directory(entry: Entry, path: str) -> bool:
    """Whether the entry says that there is a directory at the path."""
    return entry.path.startswith(f"{path}/") or (entry.path == path and entry.kind in {"directory", "opaque"})
