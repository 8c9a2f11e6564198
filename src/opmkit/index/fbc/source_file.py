"""The files of a catalog as people wrote them: some documents change, and all other text stays as it is."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidDocument
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.documents import BOM, is_json, leading_lines, read_documents
from opmkit.index.fbc.load import load_documents
from opmkit.index.fbc.write import to_json, to_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.index.fbc.blobs import Blob


@dataclass(frozen=True, slots=True)
class Part:
    """A document of a file: the blob that it is, and its text up to the next one."""

    blob: Blob
    text: bytes


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a catalog: its documents in order, and the byte order ``mark`` that it begins with, if any."""

    parts: tuple[Part, ...]
    json: bool
    mark: bytes = b""

    def put(self, blob: Blob) -> Part:
        """A document that is new here."""
        return Part(blob, _written(blob, json=self.json))

    def changed(self, part: Part, blob: Blob) -> Part:
        """The document with another blob; the comments before and behind it stay, and what parts it from others."""
        text = part.text
        if self.json:
            before, behind = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
            return Part(blob, before + _written(blob, json=True).rstrip() + behind)
        return Part(blob, leading_lines(text) + _written(blob, json=False).removeprefix(_START) + _comments(text))

    def joined(self, parts: Sequence[Part]) -> bytes:
        """The text of the file with these documents."""
        closed = [self._closed(part) for part in parts[:-1]]
        return self.mark + b"".join(part.text for part in (*closed, *parts[-1:]))

    def _closed(self, part: Part) -> Part:
        """The document with the end of its last line, for another follows; one of JSON may stand in the same line."""
        if part.text.endswith(b"\n"):
            return part
        if self.json:
            return part if part.text[-1:].isspace() else Part(part.blob, part.text + b"\n")
        closed = self.changed(part, part.blob)  # an end of the line would add one to a text that is in a block
        return closed if closed.text.endswith(b"\n") else Part(part.blob, closed.text + b"\n")


_START = b"---\n"


def _written(blob: Blob, *, json: bool) -> bytes:
    return to_json([blob]) if json else to_yaml([blob])


def _comments(text: bytes) -> bytes:
    """The comments behind all content of a YAML document, and what is between them."""
    end = list(takewhile(_is_comment, reversed(text.splitlines(keepends=True))))
    lines = list(dropwhile(bytes.isspace, reversed(end)))
    return b"".join(lines)


def _is_comment(line: bytes) -> bool:
    return line.startswith(b"#") or line.isspace()


def read_source(name: str, raw: bytes, expected: Iterable[Blob]) -> SourceFile:
    """The file of that name and content, with the blobs that were ``expected`` there, in the order of the file.

    Raises:
        CatalogError: if others are in it.
    """
    waiting: defaultdict[tuple[int, str, str, str], deque[Blob]] = defaultdict(deque)
    for blob in expected:
        waiting[_key(blob)].append(blob)
    parts = []
    body = raw.removeprefix(BOM)
    for document in read_documents(raw, empty=True):
        if isinstance(document, InvalidDocument):
            raise _moved(name)
        for found in load_documents(name, [document]).blobs:
            known = waiting[_key(found)]
            if not known or known[0] != found:
                raise _moved(name)
            parts.append(Part(known.popleft(), body[document.start : document.end]))
    if any(waiting.values()):
        raise _moved(name)
    return SourceFile(tuple(parts), is_json(body), raw[: len(raw) - len(body)])


def _key(blob: Blob) -> tuple[int, str, str, str]:
    return blob.location.line, blob.schema, blob.package, blob.name


def _moved(name: str) -> CatalogError:
    return CatalogError(
        f"{name} was changed by somebody else while the catalog was worked on", advice="Run the command again."
    )
