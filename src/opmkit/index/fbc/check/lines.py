"""Lines of the values that findings are about, in the files of a catalog directory."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from opmkit.core.errors import OpmkitError
from opmkit.documents.content import Content
from opmkit.documents.document_stream import BOM, Document, read_documents
from opmkit.index.fbc.load import read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from opmkit.index.fbc.findings import CatalogFinding


def find_lines(findings: Iterable[CatalogFinding], root: Path) -> Iterator[CatalogFinding]:
    """Yield findings, those with a path in a document with the line of its value instead of the document's.

    Files are read again, since loading a catalog does not retain the lines of values.
    """
    for file, group in groupby(findings, key=lambda finding: finding.file):
        members = list(group)
        if not file or not any(finding.path for finding in members):
            yield from members
            continue
        documents = _documents(root / file)
        for finding in members:
            start, content = documents.get(finding.line, (0, None))
            line = content.locate(finding.path)[0] if finding.path and content else 0
            yield replace(finding, line=start + line) if line else finding


def _documents(path: Path) -> Mapping[int, tuple[int, Content]]:
    """Return the documents of a file by their first lines, each with the number of lines before it."""
    try:
        raw = read_file(path).removeprefix(BOM)
    except OpmkitError:  # changed since it was loaded
        return {}
    return {
        document.line: (raw.count(b"\n", 0, document.start), Content.read(raw[document.start : document.end]))
        for document in read_documents(raw)
        if isinstance(document, Document)
    }
