"""Editing of catalog files: some documents change, all other text is preserved."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from opmkit.documents.document_stream import BOM, is_json, leading_lines, read_documents
from opmkit.documents.errors import InvalidDocument
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.load import load_documents
from opmkit.index.fbc.write import to_json, to_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.index.fbc.blobs import Blob

_START = b"---\n"


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document of a file: its blob, and the text up to the next document."""

    blob: Blob
    text: bytes


@dataclass(frozen=True, slots=True)
class SourceFile:
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
