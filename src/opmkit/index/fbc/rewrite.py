"""Changing a catalog directory: what changed is written where it was, and nobody's files are touched for nothing.

The catalog was read, and what it is to hold now was made of that; here is told which files have to change, and how.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.load import read_file
from opmkit.index.fbc.new_files import encode_like, new_package_files, sibling_file
from opmkit.index.fbc.source_file import read_source
from opmkit.index.fbc.walk import IGNORE_FILE
from opmkit.index.fbc.write import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.index.fbc.blobs import Blob, Blobs


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The files of a catalog directory that change, by their paths from its root: their new content, or that they go.

    What was a link becomes a file, and what it leads to stays.
    """

    write: Mapping[str, bytes] = field(default_factory=dict)
    remove: tuple[str, ...] = ()


def plan_changes(root: Path, before: Blobs, after: Blobs) -> FileChanges:
    """What to write and remove so that the catalog directory ``root``, which was read as ``before``, holds ``after``.

    Blobs are the same if they have the same schema, package and name, of several such in their order. Documents that
    don't change keep their text, and a file without any that does is not touched. One that is new goes behind the last
    of its schema in its package, or beside it if that has a file of its own, which is named after it; else behind the
    last of the package, else to ``PACKAGE/catalog.EXTENSION``.

    Raises:
        CatalogError: a file was changed since; a new package's name is no name of a directory; its file would be
            ignored.
        StoreError: if a file can't be read.
    """
    fates, new = _fates(list(before), list(after))
    homeless = _place(fates, new)
    files: defaultdict[str, list[_Fate]] = defaultdict(list)
    for fate in fates:
        files[fate.was.location.file].append(fate)
    write: dict[str, bytes] = {}
    for known in files.values():
        if len(known) == 1:
            known[0].behind = _left(root, known[0], write)
    write |= new_package_files(root, homeless, files, write)
    remove = []
    for name, known in files.items():
        if any(fate.becomes is not fate.was or fate.behind for fate in known):
            content = _edited(root, name, known)
            write |= {name: content} if content else {}
            remove += [] if content else [name]
    return FileChanges(dict(sorted(write.items())), tuple(sorted(remove)))


@dataclass(slots=True)
class _Fate:
    """What a blob becomes: itself, another, or nothing; and those that come behind it."""

    was: Blob
    becomes: Blob | None = None
    behind: list[Blob] = field(default_factory=list)


def _fates(old: Sequence[Blob], new: Sequence[Blob]) -> tuple[list[_Fate], list[Blob]]:
    """What becomes of the old blobs, and those that none of them becomes."""
    waiting: defaultdict[tuple[str, str, str], list[Blob]] = defaultdict(list)
    for blob in new:
        waiting[_identity(blob)].append(blob)
    fates = [_Fate(blob) for blob in old]
    for fate in fates:
        alike = waiting[_identity(fate.was)]
        same = next((location for location, one in enumerate(alike) if _says_the_same(fate.was, one)), None)
        if same is not None:
            del alike[same]
            fate.becomes = fate.was
    for fate in fates:
        alike = waiting[_identity(fate.was)]
        if fate.becomes is None and alike:
            fate.becomes = alike.pop(0)
    return fates, [blob for alike in waiting.values() for blob in alike]


def _identity(blob: Blob) -> tuple[str, str, str]:
    return blob.schema, blob.package, blob.name


def _says_the_same(one: Blob, other: Blob) -> bool:
    return one is other or (one == other and canonical_json(one) == canonical_json(other))


def _place(fates: Iterable[_Fate], new: Iterable[Blob]) -> list[Blob]:
    """Put new blobs behind old ones; those of packages that are nowhere yet are given back."""
    last: dict[tuple[str, str], _Fate] = {}
    for fate in sorted(fates, key=_position):
        last[fate.was.package, fate.was.schema] = last[fate.was.package, ""] = fate
    homeless: list[Blob] = []
    for blob in new:
        anchor = last.get((blob.package, blob.schema)) or last.get((blob.package, ""))
        (anchor.behind if anchor else homeless).append(blob)
    return homeless


def _left(root: Path, fate: _Fate, write: dict[str, bytes]) -> list[Blob]:
    """The blobs behind one that has a file to itself, but for those that can have one, too: these are put to write."""
    left = []
    for blob in fate.behind:
        name = sibling_file(root, fate.was, blob)
        if name and name not in write:
            write[name] = encode_like(root / fate.was.location.file, blob)
        else:
            left.append(blob)
    return left


def _position(fate: _Fate) -> tuple[list[str], int]:
    """Sorts as catalogs are read."""
    return fate.was.location.file.split("/"), fate.was.location.line


def _edited(root: Path, name: str, fates: Sequence[_Fate]) -> bytes:
    """The new content of a file, none if no document is left."""
    source = read_source(name, read_file(_inside(root, name)), [fate.was for fate in fates])
    by_blob = {id(fate.was): fate for fate in fates}
    parts = []
    for part in source.parts:
        fate = by_blob[id(part.blob)]
        if fate.becomes is not None:
            parts.append(part if fate.becomes is part.blob else source.changed(part, fate.becomes))
        parts += map(source.put, fate.behind)
    return source.joined(parts) if parts else b""


def apply_changes(root: Path, rewritten: FileChanges) -> None:
    """Change a catalog directory, which comes to be where there is none.

    All is written before the first file is moved to its place, so that a full disk changes nothing. Readers pass over
    what is written until then, and over what is left of it where the program is killed.

    Raises:
        CatalogError: if a file would be written outside ``root``.
        StoreError: if the disk says no.
    """
    with disk_errors(root):
        root.mkdir(parents=True, exist_ok=True)
        paths = {name: _inside(root, name) for name in (*rewritten.write, *rewritten.remove)}
        with ScratchDirectory(".opm-", root) as scratch:
            ready = Path(scratch)
            (ready / IGNORE_FILE).write_text("*\n")
            for number, (name, content) in enumerate(rewritten.write.items()):
                (ready / str(number)).write_bytes(content)
                if paths[name].exists():
                    shutil.copymode(paths[name], ready / str(number))
            for number, name in enumerate(rewritten.write):
                paths[name].parent.mkdir(parents=True, exist_ok=True)
                (ready / str(number)).replace(paths[name])
        for name in rewritten.remove:
            paths[name].unlink(missing_ok=True)


def _inside(root: Path, name: str) -> Path:
    """The path of a file, whose directory must be in the root."""
    path = root / name
    with disk_errors(path):
        if path.parent.resolve().is_relative_to(root.resolve()):
            return path
    raise CatalogError(
        f"{path} is not in the catalog: a link leads out of {root}", advice="Put the directory in place of the link."
    )
