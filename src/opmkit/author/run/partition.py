"""Split a catalog into parts that fit into ConfigMaps."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.core.errors import LimitExceeded
from opmkit.index.fbc.write import compact_json, sort_blobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.index.fbc.blobs import Blobs

MAX_PART = 1000 << 10
"""Maximum size of a part in bytes: a ConfigMap holds 1 MiB, including its keys."""
_CHUNK = 6 << 20
"""Uncompressed size in bytes of a part to start with; catalogs are compressed to about an eighth."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file with documents of a catalog, in JSON, perhaps compressed with gzip."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Partition:
    """The parts of a catalog.

    Attributes:
        parts: files, each for one ConfigMap.
        compressed: whether they are compressed.
        digest: first characters of the SHA-256 digest of the catalog, for names of objects.
    """

    parts: tuple[Part, ...]
    compressed: bool
    digest: str


def partition(blobs: Blobs, *, max_part: int = MAX_PART) -> Partition:
    """Split a catalog into parts; one that fits into a single part is not compressed.

    Raises:
        LimitExceeded: a single document does not fit.
    """
    documents = [compact_json(blob) for blob in sort_blobs(blobs)]
    digest = hashlib.sha256(b"".join(documents)).hexdigest()[:8]
    if sum(map(len, documents)) <= max_part:
        return Partition((Part("catalog.json", b"".join(documents)),), False, digest)
    contents = [part for chunk in _chunks(documents) for part in _compress(chunk, max_part)]
    parts = tuple(Part(f"catalog-{number}.json.gz", content) for number, content in enumerate(contents, 1))
    return Partition(parts, True, digest)


def _chunks(documents: Sequence[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for document in documents:
        if chunk and size + len(document) > _CHUNK:
            yield chunk
            chunk, size = [], 0
        chunk.append(document)
        size += len(document)
    if chunk:
        yield chunk


def _compress(documents: Sequence[bytes], max_part: int) -> list[bytes]:
    compressed = gzip.compress(b"".join(documents), compresslevel=9, mtime=0)
    if len(compressed) <= max_part:
        return [compressed]
    if len(documents) == 1:
        raise LimitExceeded(
            f"catalog: a document of {len(documents[0])} bytes does not fit into a ConfigMap: "
            f"{len(compressed)} bytes compressed, more than {max_part}",
            hint="reduce the manifests of the bundle, or remove the bundle from the index",
        )
    middle = len(documents) // 2
    return [*_compress(documents[:middle], max_part), *_compress(documents[middle:], max_part)]
