"""Read files and directories of an image into memory, and find one file, such as the program that it runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opmkit.core.errors import LimitExceeded
from opmkit.core.files import disk_errors
from opmkit.core.scratch import ScratchDirectory
from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.layer.limits import DISK_LIMITS, MEMORY_LIMITS, Limits, LimitTracker
from opmkit.imagetools.layer.reader import (
    MAX_LINKS,
    LayerEntry,
    LayerReader,
    ancestors,
    is_related,
    is_within,
    normalize_path,
    normalize_prefixes,
    resolve_link,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.imagetools.layer.limits import LayerSource
    from opmkit.imagetools.spec import ImageConfig


FileTree = Mapping[str, bytes]
"""File contents by path."""


class _Symlink(Struct, frozen=True):
    target: str


_Nodes = dict[str, bytes | _Symlink]


def read_tree(
    layers_top_first: Iterable[LayerSource], prefixes: Sequence[str], limits: Limits = MEMORY_LIMITS
) -> dict[str, bytes]:
    """Return the contents of the regular files at or below the prefixes (such as ``manifests``), sorted by path.

    A link to one of these files is included with that file's content. Devices are omitted.

    Raises:
        InvalidImage: A layer is damaged or unsafe, or a link brings other content of the image to the prefixes, which
            programs that unpack the image would see.
        LimitExceeded: The layers exceed a limit.
    """
    tracker = LimitTracker(limits)
    wanted = normalize_prefixes(prefixes)
    tree: _Nodes = {}
    links = _Links(wanted)
    for descriptor, opener in reversed(list(layers_top_first)):
        changes = _LayerChanges()
        with LayerReader(descriptor, opener, tracker) as layer:
            for entry in layer:
                links.check(entry, layer)
                if is_related(entry.path, wanted):
                    keep = entry.kind == "symlink" or any(is_within(entry.path, prefix) for prefix in wanted)
                    changes.record(entry, layer, tree, wanted, keep=keep)
        tree = changes.apply_to(tree)
    files: dict[str, bytes] = {}
    for path in sorted(tree):
        target = _resolve(tree, path)
        if not all(any(is_within(each, prefix) for prefix in wanted) for each in (path, target)):
            raise InvalidImage(f"{path!r} is a link to {target!r}: not one of the files that are read", hint=_NO_LINKS)
        if isinstance(content := tree.get(target), bytes):
            files[path] = content
    return files


class _Links(Struct):
    """The symbolic links of an image, through which later entries could be written below the prefixes."""

    wanted: tuple[str, ...]
    targets: dict[str, str] = {}

    def check(self, entry: LayerEntry, layer: LayerReader) -> None:
        """Remember a link; raise InvalidImage for an entry that is written through one to a path of the prefixes."""
        path = entry.path
        for _ in range(MAX_LINKS if self.targets else 0):
            link = next((directory for directory in ancestors(path) if directory in self.targets), None)
            if link is None:
                break
            path = (resolve_link(link, self.targets[link]) + path[len(link) :]).lstrip("/")
        if path != entry.path and is_related(path, self.wanted) and "" not in self.wanted:
            raise layer.invalid(f"entry {entry.path!r} is written through a link to {path!r}")
        if entry.kind == "symlink":
            self.targets[entry.path] = entry.target


class _LayerChanges(Struct):
    """The changes that one layer makes to the tree of the layers below it."""

    added: _Nodes = {}
    replaced: set[str] = set()  # including everything below
    emptied: set[str] = set()
    directories: set[str] = set()

    def record(
        self, entry: LayerEntry, layer: LayerReader, lower: _Nodes, wanted: Sequence[str], *, keep: bool
    ) -> None:
        """Record an entry; without ``keep`` only what it hides of lower layers."""
        if entry.kind == "opaque":
            self.emptied.add(entry.path)
        elif entry.kind == "directory":
            self.directories.add(entry.path)
            self.added.pop(entry.path, None)
        else:
            self.replaced.add(entry.path)
            if keep and entry.kind != "whiteout":
                self._add(entry, layer, lower, wanted)

    def _add(self, entry: LayerEntry, layer: LayerReader, lower: _Nodes, wanted: Sequence[str]) -> None:
        layer.count_extracted(entry)
        node: bytes | _Symlink | None = None
        if entry.kind == "file":
            node = b"".join(layer.content(entry))
        elif entry.kind == "symlink":
            node = _Symlink(entry.target)
        elif entry.kind == "hardlink":
            target = layer.checked_path(entry.target)
            node = self.added.get(target, lower.get(target))
            if node is None and not any(is_within(target, prefix) for prefix in wanted):
                raise layer.invalid(f"entry {entry.path!r} is a link to {target!r}: not one of the files that are read")
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


_NO_LINKS = "replace the link by the file, and build the image again"


def _resolve(tree: _Nodes, path: str) -> str:
    """Return the path that links lead to; in a cycle of links any of them."""
    for _ in range(MAX_LINKS):
        part = next((part for part in (*ancestors(path), path) if isinstance(tree.get(part), _Symlink)), None)
        if part is None:
            break
        link = tree[part]
        path = (resolve_link(part, link.target if isinstance(link, _Symlink) else "") + path[len(part) :]).lstrip("/")
    return path


class LayerScan(Struct, frozen=True):
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


class FoundFile(Struct, frozen=True):
    """The position of the layer that a file was found in, and whether that layer contains no other file."""

    layer_index: int
    only_file: bool


def find_file(
    layers_top_first: Sequence[LayerSource], path: str, destination: Path, limits: Limits = DISK_LIMITS
) -> FoundFile | None:
    """Copy the regular file at ``path`` of an image to ``destination``; return None if it does not exist.

    Layers below the one that contains the file are not opened. Links are followed within the image. The file is
    created atomically, once its layer has been verified.

    Raises:
        InvalidImage: A layer is damaged or unsafe.
        LimitExceeded: The layers exceed a limit.
        DiskError: The file cannot be written.
    """
    search = _PathSearch(normalize_prefixes((path,))[0], LimitTracker(limits))
    start = 0
    for _ in range(MAX_LINKS):
        for index in range(start, len(layers_top_first)):
            result = search.search_layer(layers_top_first[index], destination)
            if result.found:
                return FoundFile(index, result.only_file)
            if result.link_target is not None:
                search = _PathSearch(result.link_target, search.tracker)
                start = index if result.is_hardlink else 0
                break
            if result.hides_lower:
                return None
        else:
            return None
    raise InvalidImage(f"{path!r}: too many levels of links", hint="rebuild the image")


class _SearchResult(Struct, frozen=True):
    """Result of searching one layer: found, follow a link, or whited out."""

    found: bool = False
    only_file: bool = False
    hides_lower: bool = False
    link_target: str | None = None
    is_hardlink: bool = False


class _PathSearch(Struct):
    """The search for one path, from the top layer down."""

    path: str
    tracker: LimitTracker
    directories: set[str] = set()  # ancestors in upper layers, which replace links in lower ones

    def search_layer(self, source: LayerSource, destination: Path) -> _SearchResult:
        """Read one layer to its end, which verifies it, and only then move the file into place."""
        descriptor, opener = source
        result = _SearchResult()
        parents = tuple(ancestors(self.path))
        directories: set[str] = set()
        only_file = True
        with (
            disk_errors(destination),
            ScratchDirectory(".opm-find-", destination.parent) as scratch,
            LayerReader(descriptor, opener, self.tracker) as layer,
        ):
            copy = Path(scratch, "file")
            for entry in layer:
                directories.update(parent for parent in parents if _implies_directory(entry, parent))
                if entry.path == self.path:
                    result = self._match_path(entry, layer, result, copy)
                elif entry.path in parents or not entry.path:
                    result = self._match_parent(entry, result)
                is_parent = entry.kind == "directory" and is_within(self.path, entry.path)
                only_file &= entry.path == self.path or is_parent
            if result.found:
                copy.replace(destination)
        self.directories |= directories
        return replace(result, only_file=only_file)

    def _match_path(self, entry: LayerEntry, layer: LayerReader, previous: _SearchResult, copy: Path) -> _SearchResult:
        if entry.kind == "file":
            layer.count_extracted(entry)
            with copy.open("wb") as output:
                for data in layer.content(entry):
                    output.write(data)
            return _SearchResult(found=True)
        if entry.kind == "symlink":
            return _SearchResult(link_target=resolve_link(entry.path, entry.target))
        if entry.kind == "hardlink":
            return _SearchResult(link_target=layer.checked_path(entry.target), is_hardlink=True)
        if entry.kind in {"whiteout", "opaque"}:
            return replace(previous, hides_lower=True)
        return _SearchResult(hides_lower=True)

    def _match_parent(self, entry: LayerEntry, previous: _SearchResult) -> _SearchResult:
        if entry.kind == "directory":
            return previous
        if entry.kind == "symlink" and entry.path not in self.directories and not previous.found:
            rest = self.path[len(entry.path) :]
            return replace(previous, link_target=(resolve_link(entry.path, entry.target) + rest).lstrip("/"))
        return replace(previous, hides_lower=True)


def _implies_directory(entry: LayerEntry, path: str) -> bool:
    """Return whether the entry means that there is a directory at the path."""
    return entry.path.startswith(f"{path}/") or (entry.path == path and entry.kind in {"directory", "opaque"})


MAX_NAMED = 100
"""Paths with the same last component that `contains_name` follows through the layers of an image."""


def contains_name(layers_bottom_first: Iterable[LayerSource], name: str, limits: Limits = DISK_LIMITS) -> bool:
    """Return whether an image has a file, directory or link of this name in any directory.

    Raises:
        InvalidImage: A layer is damaged or unsafe.
        LimitExceeded: The layers exceed a limit, or have more than `MAX_NAMED` paths of this name.
    """
    tracker = LimitTracker(limits)
    found: set[str] = set()
    for descriptor, opener in layers_bottom_first:
        with LayerReader(descriptor, opener, tracker) as layer:
            found = _find_named(layer, name, frozenset(found))
    return bool(found)


def _find_named(layer: LayerReader, name: str, lower: frozenset[str]) -> set[str]:
    """Return the paths of this name in a layer, and those of lower layers that it does not hide."""
    visible, added = set(lower), set[str]()
    for entry in layer:
        is_whiteout = entry.kind in {"whiteout", "opaque"}
        if entry.kind != "directory":
            for paths in (visible,) if is_whiteout else (visible, added):
                paths -= {path for path in paths if _hides(entry, path)}
        if not is_whiteout and f"/{name}/" in f"/{entry.path}/":
            added.update(path for path in (*ancestors(entry.path), entry.path) if path.rpartition("/")[2] == name)
            if len(added) > MAX_NAMED:
                raise LimitExceeded(f"more than {MAX_NAMED} files are named {name}", hint="rebuild the image")
    return visible | added


def _hides(entry: LayerEntry, path: str) -> bool:
    """Return whether an entry that is not a directory removes a path, or the directory that contains it."""
    below = not entry.path or path.startswith(f"{entry.path}/")
    return below or (entry.kind == "whiteout" and path == entry.path)


_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Directories of programs in images that do not set PATH."""
_MERGED_DIRECTORIES = ("bin/", "sbin/", "lib/")
"""Directories that are links to those of the same name below ``usr`` in most distributions."""


def find_program(config: ImageConfig, layers: Sequence[LayerSource], limits: Limits) -> bool | None:
    """Return whether one of the layers contains the program that an image runs; False if it runs none.

    Layers that the history names the program for are read first, then the smallest. Reading ends at the program, so
    that only the beginning of the layer with a server is read. Whiteouts are ignored: whoever removes a program from an
    image also changes its command.

    Args:
        config: The configuration of the image.
        layers: The layers, bottom first.
        limits: Limits for reading all layers together.

    Returns:
        The answer, or None if finding it would exceed the limits.

    Raises:
        ImageToolsError: A layer cannot be read, or is damaged.
    """
    wanted = set(_program_paths(config))
    ordered, tracker = _likely_first(config, layers), LimitTracker(limits)
    try:
        for _ in range(MAX_LINKS if wanted else 0):
            linked: set[str] = set()
            if any(_search(layer, wanted, linked, tracker) for layer in ordered):
                return True
            if linked <= wanted:
                break
            wanted |= linked
    except LimitExceeded:
        return None
    return False


def _program_paths(config: ImageConfig) -> Iterator[str]:
    """Yield the paths at which a runtime looks for the program, relative to the root of the image."""
    program = next(iter((*config.entrypoint, *config.cmd)), "")
    if not program:
        return
    env = dict(variable.partition("=")[::2] for variable in config.env)
    directories = [config.working_dir or "/"] if "/" in program else env.get("PATH", _DEFAULT_PATH).split(":")
    for directory in directories:
        path = normalize_path(str(PurePosixPath("/", directory, program)))
        if path:
            yield path
            if path.startswith(_MERGED_DIRECTORIES):
                yield f"usr/{path}"


def _likely_first(config: ImageConfig, layers: Sequence[LayerSource]) -> list[LayerSource]:
    steps = [step.created_by for step in config.history if not step.empty_layer]
    if len(steps) != len(layers):
        steps = [""] * len(layers)
    program = PurePosixPath(next(iter((*config.entrypoint, *config.cmd)), "")).name
    name = re.compile(rf"\b{re.escape(program)}\b")
    pairs = zip(layers, steps, strict=True)
    return [layer for layer, _ in sorted(pairs, key=lambda pair: (not name.search(pair[1]), pair[0][0].size))]


def _search(layer: LayerSource, wanted: set[str], linked: set[str], tracker: LimitTracker) -> bool:
    """Return whether a layer has a file or link at a wanted path; add the paths that links of directories lead to."""
    parents = {parent for path in wanted for parent in ancestors(path)}
    descriptor, opener = layer
    with LayerReader(descriptor, opener, tracker) as entries:
        for entry in entries:
            if entry.path in wanted and entry.kind in {"file", "symlink", "hardlink"}:
                return True
            if entry.kind == "symlink" and entry.path in parents:
                target = resolve_link(entry.path, entry.target)
                below = [path.removeprefix(entry.path) for path in wanted if path.startswith(f"{entry.path}/")]
                linked.update(f"{target}{rest}".lstrip("/") for rest in below)
    return False
