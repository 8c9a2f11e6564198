"""Changes of a catalog directory: edit the files that hold changed blobs, and leave all other text as it is."""

from __future__ import annotations

import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.files import disk_errors
from opmkit.core.scratch import ScratchDirectory
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
    """Files of a catalog directory to write and to remove, by path relative to its root.

    A symbolic link to write becomes a regular file; its target is not changed.
    """

    write: Mapping[str, bytes] = field(default_factory=dict)
    remove: tuple[str, ...] = ()


def plan_changes(root: Path, before: Blobs, after: Blobs) -> FileChanges:
    """Return the changes that turn a catalog directory with the blobs ``before`` into one with ``after``.

    Blobs correspond if they have the same schema, package and name, and several of them in their order. Unchanged
    documents keep their text, and files without changes are not written. A new blob is inserted after the last one of
    its schema and package, or becomes a sibling file if that one has its own file named after it; otherwise after the
    last blob of the package; otherwise in ``PACKAGE/catalog.EXTENSION``.

    Raises:
        CatalogError: A file has changed since it was read, the name of a new package is not a valid directory name, or
            its file would be ignored.
        DiskError: A file can't be read.
    """
    edits, new = _match_blobs(list(before), list(after))
    without_file = _assign_new_blobs(edits, new)
    files: defaultdict[str, list[_BlobEdit]] = defaultdict(list)
    for edit in edits:
        files[edit.old.location.file].append(edit)
    write: dict[str, bytes] = {}
    for file_edits in files.values():
        if len(file_edits) == 1:
            file_edits[0].inserted = _move_to_sibling_files(root, file_edits[0], write)
    write |= new_package_files(root, without_file, files, write)
    remove = []
    for name, file_edits in files.items():
        if any(edit.new is not edit.old or edit.inserted for edit in file_edits):
            content = _edit_file(root, name, file_edits)
            write |= {name: content} if content else {}
            remove += [] if content else [name]
    return FileChanges(dict(sorted(write.items())), tuple(sorted(remove)))


@dataclass(slots=True)
class _BlobEdit:
    """An edit of a blob: its replacement, which may be itself or None, and blobs to insert after it."""

    old: Blob
    new: Blob | None = None
    inserted: list[Blob] = field(default_factory=list)


def _match_blobs(before: Sequence[Blob], after: Sequence[Blob]) -> tuple[list[_BlobEdit], list[Blob]]:
    """Return an edit for each old blob, and the new blobs that correspond to none."""
    unmatched: defaultdict[tuple[str, str, str], list[Blob]] = defaultdict(list)
    for blob in after:
        unmatched[_identity(blob)].append(blob)
    edits = [_BlobEdit(blob) for blob in before]
    for edit in edits:
        candidates = unmatched[_identity(edit.old)]
        equal = next((index for index, blob in enumerate(candidates) if _is_equal(edit.old, blob)), None)
        if equal is not None:
            del candidates[equal]
            edit.new = edit.old
    for edit in edits:
        candidates = unmatched[_identity(edit.old)]
        if edit.new is None and candidates:
            edit.new = candidates.pop(0)
    return edits, [blob for candidates in unmatched.values() for blob in candidates]


def _identity(blob: Blob) -> tuple[str, str, str]:
    return blob.schema, blob.package, blob.name


def _is_equal(blob: Blob, other: Blob) -> bool:
    return blob is other or (blob == other and canonical_json(blob) == canonical_json(other))


def _assign_new_blobs(edits: Iterable[_BlobEdit], new: Iterable[Blob]) -> list[Blob]:
    """Insert new blobs after old ones; return those of packages that have no file yet."""
    last: dict[tuple[str, str], _BlobEdit] = {}
    for edit in sorted(edits, key=_read_order):
        last[edit.old.package, edit.old.schema] = last[edit.old.package, ""] = edit
    without_file: list[Blob] = []
    for blob in new:
        anchor = last.get((blob.package, blob.schema)) or last.get((blob.package, ""))
        (anchor.inserted if anchor else without_file).append(blob)
    return without_file


def _move_to_sibling_files(root: Path, edit: _BlobEdit, write: dict[str, bytes]) -> list[Blob]:
    """Write blobs inserted after the only one of a file to sibling files; return those that can't have one."""
    remaining = []
    for blob in edit.inserted:
        name = sibling_file(root, edit.old, blob)
        if name and name not in write:
            write[name] = encode_like(root / edit.old.location.file, blob)
        else:
            remaining.append(blob)
    return remaining


def _read_order(edit: _BlobEdit) -> tuple[list[str], int]:
    return edit.old.location.file.split("/"), edit.old.location.line


def _edit_file(root: Path, name: str, edits: Sequence[_BlobEdit]) -> bytes:
    """Return the new content of a file; empty if no document remains."""
    source = read_source(name, read_file(_path_in_root(root, name)), [edit.old for edit in edits])
    by_blob = {id(edit.old): edit for edit in edits}
    documents = []
    for document in source.documents:
        edit = by_blob[id(document.blob)]
        if edit.new is not None:
            documents.append(document if edit.new is document.blob else source.replace_blob(document, edit.new))
        documents += map(source.new_document, edit.inserted)
    return source.join(documents) if documents else b""


def apply_changes(root: Path, changes: FileChanges) -> None:
    """Write and remove files of a catalog directory, which is created if it does not exist.

    All files are written to a temporary directory before the first one is renamed, so that a full disk changes nothing.
    Loaders ignore that directory, also if the program is killed and leaves it behind.

    Raises:
        CatalogError: A file would be written outside ``root``.
        DiskError: A file can't be written or removed.
    """
    with disk_errors(root):
        root.mkdir(parents=True, exist_ok=True)
        paths = {name: _path_in_root(root, name) for name in (*changes.write, *changes.remove)}
        with ScratchDirectory(".opm-", root) as scratch:
            staging = Path(scratch)
            (staging / IGNORE_FILE).write_text("*\n")
            for number, (name, content) in enumerate(changes.write.items()):
                (staging / str(number)).write_bytes(content)
                if paths[name].exists():
                    shutil.copymode(paths[name], staging / str(number))
            for number, name in enumerate(changes.write):
                paths[name].parent.mkdir(parents=True, exist_ok=True)
                (staging / str(number)).replace(paths[name])
        for name in changes.remove:
            paths[name].unlink(missing_ok=True)


def _path_in_root(root: Path, name: str) -> Path:
    """Return the path of a file; raise CatalogError if a symbolic link leads its directory out of the root."""
    path = root / name
    with disk_errors(path):
        if path.parent.resolve().is_relative_to(root.resolve()):
            return path
    raise CatalogError(
        f"{path}: refusing to write outside the catalog: a symbolic link leads out of {root}",
        hint="Replace the link with the directory.",
    )
