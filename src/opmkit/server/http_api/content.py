"""The documents of a catalog as JSON lines in a file, with an index by schema, package and name."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import struct
import time
from array import array
from bisect import bisect_left
from contextlib import suppress
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import orjson
from msgspec import Struct, field

from opmkit.core.files import disk_errors
from opmkit.core.locks import locked_directory
from opmkit.documents.document_stream import read_documents
from opmkit.documents.errors import InvalidDocument
from opmkit.index.fbc.blobs import SourceLocation
from opmkit.index.fbc.findings import CatalogFinding, raise_findings
from opmkit.index.fbc.load import read_file
from opmkit.index.fbc.walk import iter_catalog_files
from opmkit.index.fbc.write import json_line
from opmkit.server.json_cache.cache import is_current
from opmkit.server.json_cache.digest import DOCUMENTS, FILE_MODE
from opmkit.server.response_cache import unnamed_file
from opmkit.server.settings import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from types import TracebackType

    from opmkit.server.json_cache.cache import JsonCache


FIELDS = ("schema", "package", "name")
"""Fields that documents can be selected by."""
TAG_LENGTH = 32
"""Characters of the SHA-256 digest of the documents that are the tag."""
_CHUNK_SIZE = 1 << 16
"""Bytes of a piece: each client that does not read holds up to three of them."""


class Section(Struct, frozen=True):
    """A part of the file."""

    offset: int
    length: int


class SelectedDocuments(Struct, frozen=True):
    """The sections of selected documents: few bytes for each document, since each client has a selection."""

    offsets: array[int]
    numbers: array[int]

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.numbers)

    def __iter__(self) -> Iterator[Section]:
        """Iterate over the sections, one for each document."""
        for number in self.numbers:
            yield Section(self.offsets[number], self.offsets[number + 1] - self.offsets[number])


class ContentIndex(NamedTuple):
    """The digest of the documents, their offsets, and their numbers by the values of each field."""

    tag: str
    offsets: array[int]
    numbers: dict[str, dict[str, array[int]]]


class CatalogLines(Struct):
    """The documents of a catalog in an unnamed file, which processes share.

    Attributes:
        modified: The time the file was written, in seconds.
        tag: A digest of the content.
    """

    _file: IO[bytes]
    modified: int = field(default_factory=lambda: int(time.time()))
    tag: str = ""
    _offsets: array[int] = field(default_factory=lambda: array("Q", [0]))
    _numbers: dict[str, dict[str, array[int]]] = field(default_factory=lambda: {name: {} for name in FIELDS})

    @classmethod
    def write(cls, root: Path) -> CatalogLines:
        """Write the documents of the catalog in the directory ``root``, in the order of its files.

        Raises:
            InvalidCatalog: A document is invalid.
            DiskError: A file of the catalog cannot be read.
            ServerError: The temporary file cannot be written.
        """
        try:
            content = cls(unnamed_file())
        except OSError as error:
            raise _write_error(error) from error
        digest = hashlib.sha256()
        try:
            for document, line in _documents(root):
                digest.update(line)
                content._add(document, line)
        except BaseException:
            content._file.close()
            raise
        content.tag = digest.hexdigest()[:TAG_LENGTH]
        return content

    def __enter__(self) -> CatalogLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    @classmethod
    def from_index(cls, file: IO[bytes], index: ContentIndex) -> CatalogLines:
        """Return content that was written before, with its index."""
        return cls(file, tag=index.tag, _offsets=index.offsets, _numbers=index.numbers)

    @property
    def index(self) -> ContentIndex:
        """The index of the documents."""
        return ContentIndex(self.tag, self._offsets, self._numbers)

    def copy_to(self, target: IO[bytes]) -> None:
        """Write all documents to a file; raises OSError."""
        for piece in self.read(self.everything):
            target.write(piece)

    @property
    def everything(self) -> tuple[Section, ...]:
        """The section with all documents."""
        return (Section(0, self._offsets[-1]),)

    def select(self, **wanted: str) -> tuple[Section, ...] | SelectedDocuments:
        """Return the documents whose fields have the wanted values, in the order of the catalog.

        An empty value selects any.
        """
        found = [self._numbers[name].get(value, array("L")) for name, value in wanted.items() if value]
        if not found:
            return self.everything
        fewest, *others = sorted(found, key=len)
        return SelectedDocuments(
            self._offsets, array("L", (each for each in fewest if _are_in(others, each))) if others else fewest
        )

    def read(self, sections: Iterable[Section]) -> Iterator[bytes]:
        """Yield sections in pieces of moderate size."""
        pending, size = [], 0
        for section in sections:
            end = section.offset + section.length
            for offset in range(section.offset, end, _CHUNK_SIZE):
                pending.append(os.pread(self._file.fileno(), min(_CHUNK_SIZE, end - offset), offset))
                size += len(pending[-1])
                if size >= _CHUNK_SIZE:
                    piece, pending, size = b"".join(pending), [], 0
                    yield piece
        if pending:
            yield b"".join(pending)

    def _add(self, document: dict[str, Any], line: bytes) -> None:
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise _write_error(error) from error
        number = len(self._offsets) - 1
        self._offsets.append(self._offsets[-1] + len(line))
        for key, value in document.items():
            numbers = self._numbers.get(key.casefold())
            if numbers is not None and isinstance(value, str) and value:
                listed = numbers.setdefault(value, array("L"))
                if not listed or listed[-1] != number:  # unless the key is there in upper and lower case
                    listed.append(number)


def _are_in(ordered: Iterable[array[int]], number: int) -> bool:
    """Return whether each of several arrays in ascending order contains a number."""
    positions = ((numbers, bisect_left(numbers, number)) for numbers in ordered)
    return all(position < len(numbers) and numbers[position] == number for numbers, position in positions)


def _documents(root: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield the documents of a catalog, each with its line."""
    for name, path in iter_catalog_files(root):
        for document in read_documents(read_file(path)):
            location = SourceLocation(name, document.line)
            if isinstance(document, InvalidDocument):
                raise_findings([CatalogFinding(f"invalid YAML or JSON: {document.problem}").at(location)])
            elif not isinstance(document.value, dict):
                raise_findings([CatalogFinding("the document is not a mapping").at(location)])
            else:
                try:
                    yield document.value, json_line(document.value)
                except (ValueError, RecursionError) as error:
                    raise_findings([CatalogFinding(f"the document cannot be written as JSON: {error}").at(location)])


def _write_error(error: OSError) -> ServerError:
    return ServerError(
        f"temporary directory: writing the documents of the catalog failed: {error.strerror}",
        hint="set TMPDIR to a writable directory with as much free space as the catalog needs",
    )


_log = logging.getLogger(__name__)

_LENGTH = struct.Struct(">Q")
_NEW = f".{DOCUMENTS}-"
_READ_SIZE = 1 << 20


def open_content(root: Path, cache: JsonCache, directory: Path | None, *, must_store: bool = False) -> CatalogLines:
    """Return the documents of the catalog in ``root``, stored or new.

    Args:
        root: The catalog.
        cache: Its cache.
        directory: The directory of the cache, where new documents are stored; None to store nothing.
        must_store: Whether it is an error if they cannot be stored, for example because the directory is read-only.

    Raises:
        InvalidCatalog: A document is invalid.
        DiskError: A file of the catalog cannot be read, or new documents cannot be stored.
        ServerError: The temporary file cannot be written.
    """
    if directory is None:
        return CatalogLines.write(root)
    content = _read(directory / DOCUMENTS, cache.digest)
    if content is not None:
        return content
    content = CatalogLines.write(root)
    try:
        if is_current(root, directory, cache.digest):
            _store(content, directory, cache.digest)
    except OSError as error:
        if must_store:
            content.__exit__(None, None, None)
            with disk_errors(directory):
                raise
        fields = {"cache": str(directory), "error": error.strerror or str(error)}
        _log.info("the documents of the web API are not cached", extra={"fields": fields})
    return content


def _read(path: Path, digest: str) -> CatalogLines | None:
    """Return stored documents, None unless they are complete, unchanged, and those of the cache with a digest."""
    try:
        file = path.open("rb")
    except OSError:
        return None
    index = None
    with suppress(OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError, struct.error):
        index = _read_index(file, digest)
    if index is None:
        file.close()
        return None
    return CatalogLines.from_index(file, index)


def _read_index(file: IO[bytes], digest: str) -> ContentIndex | None:
    """Return the index of stored documents if it is valid; malformed ones raise any of several errors."""
    descriptor = file.fileno()
    end = os.fstat(descriptor).st_size - _LENGTH.size
    (length,) = _LENGTH.unpack(os.pread(descriptor, _LENGTH.size, max(end, 0)))
    size = end - length
    if size < 0:
        return None
    index: dict[str, Any] = orjson.loads(os.pread(descriptor, length, size))
    if index["digest"] != digest or index["tag"] != _hash(descriptor, size)[:TAG_LENGTH]:
        return None
    offsets = array("Q", index["offsets"])
    count = len(offsets) - 1
    numbers = {name: {value: array("L", listed) for value, listed in index["numbers"][name].items()} for name in FIELDS}
    is_ordered = all(first < second for first, second in pairwise(offsets))
    highest = max((max(found, default=0) for values in numbers.values() for found in values.values()), default=0)
    if not (is_ordered and offsets[0] == 0 and offsets[-1] == size and highest < max(count, 1)):
        return None
    return ContentIndex(index["tag"], offsets, numbers)


def _hash(descriptor: int, size: int) -> str:
    """Return the SHA-256 digest of the start of a file."""
    computed = hashlib.sha256()
    for offset in range(0, size, _READ_SIZE):
        computed.update(os.pread(descriptor, min(_READ_SIZE, size - offset), offset))
    return computed.hexdigest()


def _store(content: CatalogLines, directory: Path, digest: str) -> None:
    """Write the documents to a new file, and replace the old one; raises OSError."""
    index = content.index
    encoded = orjson.dumps(
        {
            "digest": digest,
            "tag": index.tag,
            "offsets": index.offsets.tolist(),
            "numbers": {
                name: {value: listed.tolist() for value, listed in values.items()}
                for name, values in index.numbers.items()
            },
        }
    )
    with locked_directory(directory):
        for path in directory.glob(f"{_NEW}*"):
            path.unlink()  # left over from a process that was killed
        pending = directory / f"{_NEW}{secrets.token_hex(8)}"
        try:
            descriptor = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, FILE_MODE)
                content.copy_to(file)
                file.write(encoded + _LENGTH.pack(len(encoded)))
            pending.rename(directory / DOCUMENTS)
        except BaseException:
            pending.unlink(missing_ok=True)
            raise
