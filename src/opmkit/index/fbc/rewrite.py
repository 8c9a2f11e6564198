"""Changes of a catalog directory: edit the files that hold changed blobs, and leave all other text as it is."""

from __future__ import annotations

import os
from collections import Counter, defaultdict, deque
from itertools import count, takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.files import disk_errors, write_files
from opmkit.documents.document_stream import BOM, is_json, leading_lines, read_documents
from opmkit.documents.errors import InvalidDocument
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.load import load_documents, read_file
from opmkit.index.fbc.walk import IGNORE_FILE, is_ignored
from opmkit.index.fbc.write import canonical_json, package_directory_name, to_json, to_yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import Blob, Blobs


class FileChanges(Struct, frozen=True):
    """Files of a catalog directory to write and to remove, by path relative to its root.

    A symbolic link to write becomes a regular file; its target is not changed.
    """

    write: Mapping[str, bytes] = {}
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


class _BlobEdit(Struct):
    """An edit of a blob: its replacement, which may be itself or None, and blobs to insert after it."""

    old: Blob
    new: Blob | None = None
    inserted: list[Blob] = []


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

    All files are written, or none; see `write_trees`. Then the others are removed.

    Raises:
        CatalogError: A file would be written outside ``root``.
        DiskError: A file can't be written or removed.
    """
    with disk_errors(root):
        paths = {name: _path_in_root(root, name) for name in (*changes.write, *changes.remove)}
        write_files(root, changes.write)
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


_SNIFF_SIZE = 512
"""Bytes of a file that are read to detect JSON."""


def sibling_file(root: Path, sibling: Blob, blob: Blob) -> str:
    """Return the path of a new file for a blob if ``sibling`` has a file named after it, otherwise "".

    The path is relative to the root. It is "" as well if the file exists, would be ignored, or has an invalid name.
    """
    path = PurePosixPath(sibling.location.file)
    if sibling.schema != blob.schema or path.stem != sibling.name or not blob.name or {"/", "\0"} & set(blob.name):
        return ""
    name = str(path.with_name(f"{blob.name}{path.suffix}"))
    return "" if os.path.lexists(root / name) or is_ignored(root, name) else name


def encode_like(path: Path, blob: Blob) -> bytes:
    """Encode a blob in the format of another file.

    Raises:
        DiskError: The file can't be read.
    """
    return (to_json if _starts_as_json(path) else to_yaml)([blob])


def new_package_files(
    root: Path, blobs: Sequence[Blob], files: Iterable[str], reserved: Collection[str] = ()
) -> dict[str, bytes]:
    """Return files with the blobs of packages that are new in the catalog, by path relative to the root.

    Args:
        root: The root of the catalog.
        blobs: The blobs.
        files: The files of the catalog; the format is that of the majority.
        reserved: Paths that must not be used, in addition to existing files.

    Raises:
        CatalogError: The name of a package is not a valid directory name, or its file would be ignored.
        DiskError: A file can't be read.
    """
    if not blobs:
        return {}
    formats = Counter(_starts_as_json(root / name) for name in files)
    encode, extension = (to_json, "json") if formats[True] >= formats[False] else (to_yaml, "yaml")
    contents: dict[str, bytes] = {}
    for package in sorted({blob.package for blob in blobs}):
        names = _candidate_names(root, package, extension)
        name = next(name for name in names if not (name in (*reserved, *contents) or os.path.lexists(root / name)))
        if is_ignored(root, name):
            message = f"{name}: new file for package {package} would be excluded by an {IGNORE_FILE} file"
            raise CatalogError(
                message, hint=f"Change the {IGNORE_FILE} file, or create a file of the package yourself."
            )
        contents[name] = encode(blob for blob in blobs if blob.package == package)
    return contents


def _starts_as_json(path: Path) -> bool:
    with disk_errors(path), path.open("rb") as file:
        return is_json(file.read(_SNIFF_SIZE))


def _candidate_names(root: Path, package: str, extension: str) -> Iterator[str]:
    """Yield paths for the file of a package; it is not in a directory if something else has the directory's name."""
    stem = "catalog"
    if package:
        directory = root / package_directory_name(package)
        usable = not os.path.lexists(directory) or (directory.is_dir() and not directory.is_symlink())
        stem = f"{package}/catalog" if usable else f"{package}-catalog"
    yield f"{stem}.{extension}"
    yield from (f"{stem}-{number}.{extension}" for number in count(2))


_START = b"---\n"


class SourceDocument(Struct, frozen=True):
    """A document of a file: its blob, and the text up to the next document."""

    blob: Blob
    text: bytes


class SourceFile(Struct, frozen=True):
    """A file of a catalog: its documents in order, and the byte order mark at its start, if any."""

    documents: tuple[SourceDocument, ...]
    json: bool
    byte_order_mark: bytes = b""

    def new_document(self, blob: Blob) -> SourceDocument:
        """Encode a blob in the format of the file."""
        return SourceDocument(blob, _encode(blob, json=self.json))

    def replace_blob(self, document: SourceDocument, blob: Blob) -> SourceDocument:
        """Return a document with another blob, and with the comments and separators before and after its content."""
        text = document.text
        if self.json:
            before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
            return SourceDocument(blob, before + _encode(blob, json=True).rstrip() + after)
        content = _encode(blob, json=False).removeprefix(_START)
        return SourceDocument(blob, leading_lines(text) + content + _trailing_comments(text))

    def join(self, documents: Sequence[SourceDocument]) -> bytes:
        """Return the content of the file with these documents."""
        terminated = [self._terminate(document) for document in documents[:-1]]
        return self.byte_order_mark + b"".join(document.text for document in (*terminated, *documents[-1:]))

    def _terminate(self, document: SourceDocument) -> SourceDocument:
        """End the last line of a document that another one follows; JSON documents may share a line."""
        if document.text.endswith(b"\n"):
            return document
        if self.json:
            separated = document.text[-1:].isspace()
            return document if separated else SourceDocument(document.blob, document.text + b"\n")
        # Encode it again: an added line break could become part of a block scalar.
        terminated = self.replace_blob(document, document.blob)
        return terminated if terminated.text.endswith(b"\n") else SourceDocument(document.blob, terminated.text + b"\n")


def _encode(blob: Blob, *, json: bool) -> bytes:
    return to_json([blob]) if json else to_yaml([blob])


def _trailing_comments(text: bytes) -> bytes:
    """Return the comments after the content of a YAML document, with the blank lines between them."""
    lines = text.splitlines(keepends=True)
    trailing = list(takewhile(_is_comment_or_blank, reversed(lines)))[::-1]
    blank_lines = len(list(takewhile(bytes.isspace, trailing)))
    return b"".join(trailing[blank_lines:])


def _is_comment_or_blank(line: bytes) -> bool:
    return line.startswith(b"#") or line.isspace()


def read_source(name: str, raw: bytes, expected: Iterable[Blob]) -> SourceFile:
    """Parse a file that is known to contain the ``expected`` blobs.

    Args:
        name: The name of the file for messages.
        raw: Its content.
        expected: Its blobs; the documents of the result refer to the same objects.

    Raises:
        CatalogError: The file contains other blobs.
    """
    unmatched: defaultdict[tuple[int, str, str, str], deque[Blob]] = defaultdict(deque)
    for blob in expected:
        unmatched[_key(blob)].append(blob)
    documents = []
    body = raw.removeprefix(BOM)
    for document in read_documents(raw, include_empty=True):
        if isinstance(document, InvalidDocument):
            raise _concurrent_change(name)
        for loaded in load_documents(name, [document]).blobs:
            candidates = unmatched[_key(loaded)]
            if not candidates or candidates[0] != loaded:
                raise _concurrent_change(name)
            documents.append(SourceDocument(candidates.popleft(), body[document.start : document.end]))
    if any(unmatched.values()):
        raise _concurrent_change(name)
    return SourceFile(tuple(documents), is_json(body), raw[: len(raw) - len(body)])


def _key(blob: Blob) -> tuple[int, str, str, str]:
    return blob.location.line, blob.schema, blob.package, blob.name


def _concurrent_change(name: str) -> CatalogError:
    return CatalogError(f"{name}: changed by another program since it was read", hint="Run the command again.")
