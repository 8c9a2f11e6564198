"""The files of an image under some paths, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from opmkit.imagetools.layer.limits import IN_MEMORY, Limits, Meter
from opmkit.imagetools.layer.paths import HOPS, ancestors, below, link_target, normal, touches
from opmkit.imagetools.layer.reader import Entry, LayerReader, LayerSource

FileTree = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class _Link:
    target: str


_Nodes = dict[str, bytes | _Link]


def read_tree(
    layers_top_first: Iterable[LayerSource], prefixes: Sequence[str], limits: Limits = IN_MEMORY
) -> dict[str, bytes]:
    """The regular files at or under the prefixes (such as ``manifests``), by path, in order of path.

    Links within what is read give the file they lead to; other links and devices are left out. Raises InvalidImage
    and LimitExceeded, which name the layer.
    """
    meter = Meter(limits)
    wanted = normal(prefixes)
    tree: _Nodes = {}
    for descriptor, opener in reversed(list(layers_top_first)):
        changes = _Changes()
        with LayerReader(descriptor, opener, meter) as layer:
            for entry in layer:
                if touches(entry.path, wanted):
                    changes.note(entry, layer, tree, keep=any(below(entry.path, prefix) for prefix in wanted))
        tree = changes.applied(tree)
    files = ((path, _content(tree, path)) for path in sorted(tree))
    return {path: content for path, content in files if content is not None}


@dataclass(slots=True)
class _Changes:
    """What one layer changes of the tree that those under it make."""

    added: _Nodes = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)  # with all that is below
    emptied: set[str] = field(default_factory=set)
    directories: set[str] = field(default_factory=set)

    def note(self, entry: Entry, layer: LayerReader, lower: _Nodes, *, keep: bool) -> None:
        """Take in an entry; ``keep`` says that it is wanted itself, not only for what it hides."""
        if entry.kind == "opaque":
            self.emptied.add(entry.path)
        elif entry.kind == "directory":
            self.directories.add(entry.path)
            self.added.pop(entry.path, None)
        else:
            self.replaced.add(entry.path)
            if keep and entry.kind != "whiteout":
                self._add(entry, layer, lower)

    def _add(self, entry: Entry, layer: LayerReader, lower: _Nodes) -> None:
        layer.keep(entry)
        node: bytes | _Link | None = None
        if entry.kind == "file":
            node = b"".join(layer.content(entry))
        elif entry.kind == "symlink":
            node = _Link(entry.target)
        elif entry.kind == "hardlink":
            target = layer.checked_path(entry.target)
            node = self.added.get(target, lower.get(target))
        self.added.pop(entry.path, None)
        if node is not None:
            self.added[entry.path] = node
            for directory in ancestors(entry.path):
                self.added.pop(directory, None)

    def applied(self, lower: _Nodes) -> _Nodes:
        """The tree with this layer on top."""
        gone = self.replaced | self.directories
        covering = self.replaced | self.emptied
        tree = {
            path: node
            for path, node in lower.items()
            if path not in gone and "" not in covering and covering.isdisjoint(ancestors(path))
        }
        for path in self.added:
            for directory in ancestors(path):
                tree.pop(directory, None)
        return tree | self.added


def _content(tree: _Nodes, path: str) -> bytes | None:
    for _ in range(HOPS):
        node = tree.get(path)
        if isinstance(node, bytes):
            return node
        for part in (*ancestors(path), path):
            link = tree.get(part)
            if isinstance(link, _Link):
                path = (link_target(part, link.target) + path[len(part) :]).lstrip("/")
                break
        else:
            return None
    return None
