"""Read files and directories of an image into memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.imagetools.layer.limits import DISK_LIMITS, MEMORY_LIMITS, Limits, LimitTracker
from opmkit.imagetools.layer.paths import (
    MAX_LINKS,
    ancestors,
    is_related,
    is_within,
    normalize_prefixes,
    resolve_link,
)
from opmkit.imagetools.layer.reader import LayerEntry, LayerReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.layer.types import LayerSource


FileTree = Mapping[str, bytes]
"""File contents by path."""


@dataclass(frozen=True, slots=True)
class _Symlink:
    target: str


_Nodes = dict[str, bytes | _Symlink]


def read_tree(
    layers_top_first: Iterable[LayerSource], prefixes: Sequence[str], limits: Limits = MEMORY_LIMITS
) -> dict[str, bytes]:
    """Return the contents of the regular files at or below the prefixes (such as ``manifests``), sorted by path.

    A link to one of these files is included with that file's content. Other links and devices are omitted.

    Raises:
        InvalidImage: A layer is damaged or unsafe.
        LimitExceeded: The layers exceed a limit.
    """
    tracker = LimitTracker(limits)
    wanted = normalize_prefixes(prefixes)
    tree: _Nodes = {}
    for descriptor, opener in reversed(list(layers_top_first)):
        changes = _LayerChanges()
        with LayerReader(descriptor, opener, tracker) as layer:
            for entry in layer:
                if is_related(entry.path, wanted):
                    changes.record(entry, layer, tree, keep=any(is_within(entry.path, prefix) for prefix in wanted))
        tree = changes.apply_to(tree)
    files = ((path, _content(tree, path)) for path in sorted(tree))
    return {path: content for path, content in files if content is not None}


@dataclass(slots=True)
class _LayerChanges:
    """The changes that one layer makes to the tree of the layers below it."""

    added: _Nodes = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)  # including everything below
    emptied: set[str] = field(default_factory=set)
    directories: set[str] = field(default_factory=set)

    def record(self, entry: LayerEntry, layer: LayerReader, lower: _Nodes, *, keep: bool) -> None:
        """Record an entry; without ``keep`` only what it hides of lower layers."""
        if entry.kind == "opaque":
            self.emptied.add(entry.path)
        elif entry.kind == "directory":
            self.directories.add(entry.path)
            self.added.pop(entry.path, None)
        else:
            self.replaced.add(entry.path)
            if keep and entry.kind != "whiteout":
                self._add(entry, layer, lower)

    def _add(self, entry: LayerEntry, layer: LayerReader, lower: _Nodes) -> None:
        layer.count_extracted(entry)
        node: bytes | _Symlink | None = None
        if entry.kind == "file":
            node = b"".join(layer.content(entry))
        elif entry.kind == "symlink":
            node = _Symlink(entry.target)
        elif entry.kind == "hardlink":
            target = layer.checked_path(entry.target)
            node = self.added.get(target, lower.get(target))
        self.added.pop(entry.path, None)
        if node is not None:
            self.added[entry.path] = node
            for directory in ancestors(entry.path):
                self.added.pop(directory, None)

    def apply_to(self, lower: _Nodes) -> _Nodes:
        """Return the tree with this layer on top."""
        removed = self.replaced | self.directories
        hiding = self.replaced | self.emptied
        tree = {
            path: node
            for path, node in lower.items()
            if path not in removed and "" not in hiding and hiding.isdisjoint(ancestors(path))
        }
        for path in self.added:
            for directory in ancestors(path):
                tree.pop(directory, None)
        return tree | self.added


def _content(tree: _Nodes, path: str) -> bytes | None:
    for _ in range(MAX_LINKS):
        node = tree.get(path)
        if isinstance(node, bytes):
            return node
        for part in (*ancestors(path), path):
            link = tree.get(part)
            if isinstance(link, _Symlink):
                path = (resolve_link(part, link.target) + path[len(part) :]).lstrip("/")
                break
        else:
            return None
    return None


@dataclass(frozen=True, slots=True)
class LayerScan:
    """Result of scanning a layer for directories.

    ``exclusive`` is true if the layer contains nothing else, ``hides_lower`` if it hides the content that lower layers
    have in the first directory. ``directories`` are those that the layer has entries in.
    """

    exclusive: bool
    hides_lower: bool
    directories: frozenset[str]


def scan_layer(layer: LayerSource, directories: Sequence[str], limits: Limits = DISK_LIMITS) -> LayerScan:
    """Scan a layer for directories of an image, such as ``configs``.

    Raises:
        InvalidImage: The layer is damaged or unsafe.
        LimitExceeded: The layer exceeds a limit.
    """
    wanted = normalize_prefixes(directories)
    exclusive, hides_lower = True, False
    found: set[str] = set()
    descriptor, opener = layer
    with LayerReader(descriptor, opener, LimitTracker(limits)) as entries:
        for entry in entries:
            if entry.kind in {"opaque", "whiteout"}:
                hides_lower |= is_within(wanted[0], entry.path)
            containing = [directory for directory in wanted if is_within(entry.path, directory)]
            found.update(containing)
            is_parent = entry.kind == "directory" and any(is_within(directory, entry.path) for directory in wanted)
            exclusive &= bool(containing) or is_parent
    return LayerScan(exclusive, hides_lower, frozenset(found))
