"""Documents for the web API in the directory of a catalog's cache, so that later starts do not parse the catalog.

The file contains the documents, an index in JSON, and the length of the index in bytes as a 64-bit number. It is used
only if the digest in its index is that of the cache, and if its documents have the recorded SHA-256 digest.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import struct
from array import array
from contextlib import suppress
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any

import orjson

from opmkit.core.files import disk_errors
from opmkit.core.locks import locked_directory
from opmkit.server.http_api.content import FIELDS, TAG_LENGTH, CatalogContent, ContentIndex
from opmkit.server.json_cache.cache import is_current
from opmkit.server.json_cache.layout import DOCUMENTS, FILE_MODE

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.server.json_cache.cache import JsonCache

_log = logging.getLogger(__name__)

_LENGTH = struct.Struct(">Q")
_NEW = f".{DOCUMENTS}-"
_CHUNK_SIZE = 1 << 20


def open_content(root: Path, cache: JsonCache, directory: Path | None, *, must_store: bool = False) -> CatalogContent:
    """Return the documents of the catalog in ``root``, stored or new.

    Args:
        root: the catalog.
        cache: its cache.
        directory: the directory of the cache, where new documents are stored; None to store nothing.
        must_store: whether it is an error if they cannot be stored, for example because the directory is read-only.

    Raises:
        InvalidCatalog: a document is invalid.
        DiskError: a file of the catalog cannot be read, or new documents cannot be stored.
        ServerError: the temporary file cannot be written.
    """
    if directory is None:
        return CatalogContent.write(root)
    content = _read(directory / DOCUMENTS, cache.digest)
    if content is not None:
        return content
    content = CatalogContent.write(root)
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


def _read(path: Path, digest: str) -> CatalogContent | None:
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
    return CatalogContent.from_index(file, index)


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
    for offset in range(0, size, _CHUNK_SIZE):
        computed.update(os.pread(descriptor, min(_CHUNK_SIZE, size - offset), offset))
    return computed.hexdigest()


def _store(content: CatalogContent, directory: Path, digest: str) -> None:
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
