"""Template files, with the findings about them."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.files import disk_errors, open_regular
from opmkit.documents.content import Content
from opmkit.documents.document_stream import Document, is_nested_deeper, read_documents, sort_keys
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import describe, format_path, member
from opmkit.index.fbc.blobs import Blobs, SourceLocation
from opmkit.index.fbc.fields import FieldReader
from opmkit.index.fbc.findings import CatalogFinding, raise_findings
from opmkit.index.fbc.load import load_documents
from opmkit.index.suggestions import closest_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import BinaryIO

    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.fields import Path

MAX_TEMPLATE = 1 << 28
"""Bytes of a template."""
MAX_LOCATED_TEMPLATE = 4 << 20
"""Bytes of a template up to which findings have the line of a value; locating values takes many times the memory."""
MAX_DEPTH = 200
"""Levels of nesting of a document, as in YAML; JSON could have more than Python's limit on recursion."""


class TemplateFile(Struct):
    """The documents of a template file, and the findings collected so far.

    Attributes:
        warnings: Findings that do not make the file invalid, such as duplicate keys, of which the last one counts.
    """

    name: str
    raw: bytes
    documents: Sequence[Document]
    findings: list[CatalogFinding] = []
    warnings: list[CatalogFinding] = []

    @classmethod
    def from_source(cls, source: FilePath | BinaryIO, *, allow_duplicates: bool = False) -> TemplateFile:
        """Read a file, or a stream, which messages call standard input; see `read` for the errors."""
        if isinstance(source, FilePath):
            return cls.open(source, allow_duplicates=allow_duplicates, named=True)
        return cls.read(source, "standard input", allow_duplicates=allow_duplicates)

    @classmethod
    def open(cls, path: FilePath, *, allow_duplicates: bool = False, named: bool = False) -> TemplateFile:
        """Read a file of a tree, or one that the user named, which can also be a pipe.

        Raises:
            InvalidCatalog: See `read`.
            DiskError: The file can't be read.
        """
        with disk_errors(path), path.open("rb") if named else open_regular(path) as file:
            return cls.read(file, str(path), allow_duplicates=allow_duplicates)

    @classmethod
    def read(cls, file: BinaryIO, name: str, *, allow_duplicates: bool = False) -> TemplateFile:
        """Read an open file.

        Args:
            file: The file.
            name: Its name for messages.
            allow_duplicates: Accept duplicate keys, as in catalogs; in templates they are mistakes of their authors.

        Raises:
            InvalidCatalog: It is neither YAML nor JSON, has duplicate keys, or is larger than `MAX_TEMPLATE`.
        """
        raw = file.read(MAX_TEMPLATE + 1)
        if len(raw) > MAX_TEMPLATE:
            message = f"larger than {MAX_TEMPLATE} bytes"
            raise_findings([CatalogFinding(message, file=name, hint="Write a template for each package.")])
        documents: list[Document] = []
        findings: list[CatalogFinding] = []
        warnings: list[CatalogFinding] = []
        for document in read_documents(raw):
            if isinstance(document, InvalidDocument):
                message = f"invalid YAML or JSON: {document.problem}"
                findings.append(CatalogFinding(message, file=name, line=document.line, hint="Correct the syntax."))
                continue
            documents.append(document)
            if is_nested_deeper(document.value, MAX_DEPTH):
                message = f"more than {MAX_DEPTH} levels of nesting"
                findings.append(CatalogFinding(message, file=name, line=document.line, hint="Correct the file."))
            for key, line, _ in document.duplicates:
                finding = CatalogFinding(f"duplicate key {key!r}", hint="Keep one of them.")
                (warnings if allow_duplicates else findings).append(
                    finding.at(SourceLocation(name, line or document.line))
                )
        raise_findings(findings)
        return cls(name, raw, documents, warnings=warnings)

    @property
    def schema(self) -> str:
        """Return the schema of the first document, or "" if it has none."""
        value = self.documents[0].value if self.documents else None
        schema = member(value, "schema") if isinstance(value, dict) else None
        return schema if isinstance(schema, str) else ""

    def reader(self, schema: str) -> FieldReader:
        """Return a reader of the file's only document, and report if it is not a mapping with that schema."""
        hint = f"Write schema: {schema}, or select the type of the template."
        reader = self.mapping(hint)
        if self.documents and isinstance(self.documents[0].value, dict) and self.schema != schema:
            message = f"the schema is {self.schema!r}, not {schema!r}" if self.schema else "the document has no schema"
            self.report(("schema",), message, hint=hint)
        return reader

    def mapping(self, hint: str) -> FieldReader:
        """Return a reader of the file's only document, and report if it is not a mapping."""
        value = self.documents[0].value if self.documents else None
        if not isinstance(value, dict):
            kind = f"the document is {describe(value)}, not a mapping"
            self.report((), "empty document" if value is None else kind, hint=hint)
        for other in self.documents[1:]:
            finding = CatalogFinding("a template must be a single document", hint="Move the others to separate files.")
            self.findings.append(finding.at(SourceLocation(self.name, other.line)))
        return FieldReader(value if isinstance(value, dict) else {}, self._report_type)

    def report(self, path: Path, message: str, *, hint: str) -> None:
        """Add a finding about the value at a path."""
        self.findings.append(CatalogFinding(message, hint=hint).at(self.location(path)))

    def check_fields(self, reader: FieldReader, *known: str) -> None:
        """Report fields of a mapping that are not known; names match case-insensitively."""
        self.findings += self._unknown_fields(reader, known)

    def check_foreign_fields(self, reader: FieldReader, *known: str) -> None:
        """Warn of fields that are not known, in files of other tools, whose newer versions may have more of them."""
        self.warnings += self._unknown_fields(reader, known)

    def _unknown_fields(self, reader: FieldReader, known: Iterable[str]) -> Iterator[CatalogFinding]:
        folded = {name.lower(): name for name in known}
        for key in reader.value:
            if key.lower() not in folded:
                similar = closest_name(key.lower(), folded)
                hint = f"Write {folded[similar]}." if similar else f"Remove it; known fields: {', '.join(known)}."
                path = (*reader.path, key)
                yield CatalogFinding(f"unknown field {format_path(path)}", hint=hint).at(self.location(path))

    def load_list(self, name: str, values: Iterable[JsonValue]) -> Blobs:
        """Return the valid blobs in a list, whose field is ``name``; report the invalid ones."""
        return self.load(
            Document(self.location((name, number)).line, sort_keys(value)) for number, value in enumerate(values)
        )

    def load(self, documents: Iterable[Document]) -> Blobs:
        """Return the valid blobs in documents of this file; report the invalid ones."""
        loaded = load_documents(self.name, documents)
        self.findings += loaded.errors
        return loaded.blobs

    def raise_findings(self) -> None:
        """Raise InvalidCatalog with all findings, if there are any; warnings may explain them, as unknown fields do."""
        if self.findings:
            raise_findings([*self.findings, *self.warnings])

    def _report_type(self, path: Path, problem: str) -> None:
        self.report(path, f"{format_path(path)} {problem}", hint="Correct the type.")

    def location(self, path: Path) -> SourceLocation:
        """Return the location of the value at a path, or of its closest existing parent."""
        line = self.documents[0].line if self.documents else 1
        if path and len(self.raw) <= MAX_LOCATED_TEMPLATE:
            line = Content(self.raw).locate(path)[0] or line
        return SourceLocation(self.name, line)
