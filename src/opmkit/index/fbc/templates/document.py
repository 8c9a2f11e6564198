"""The document that a template is, with all that is wrong with it gathered, each with its line."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.bundle.content import Content
from opmkit.bundle.errors import InvalidDocument
from opmkit.bundle.field_path import format_path
from opmkit.bundle.fields import describe, member
from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.fbc.blobs import Blobs, SourceLocation
from opmkit.index.fbc.documents import Document, read_documents, sort_keys
from opmkit.index.fbc.fields import FieldReader
from opmkit.index.fbc.findings import CatalogFinding, raise_findings
from opmkit.index.fbc.load import load_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path as FilePath
    from typing import BinaryIO

    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.fbc.fields import Path

MAX_TEMPLATE = 1 << 28
"""Bytes that a template may have."""
MAX_LOCATED = 4 << 20
"""Bytes of a template whose parts are located in it: this takes many times the memory."""


@dataclass(slots=True)
class TemplateFile:
    """The documents of a template; ``faults`` is where all that is wrong is told."""

    name: str
    raw: bytes
    documents: Sequence[Document]
    faults: list[CatalogFinding] = field(default_factory=list)

    @classmethod
    def open(cls, path: FilePath) -> TemplateFile:
        """Read the file at a path; raises what `read` does, and StoreError."""
        with disk_errors(path), path.open("rb") as file:
            return cls.read(file, str(path))

    @classmethod
    def read(cls, file: BinaryIO, name: str) -> TemplateFile:
        """Read a file.

        Raises:
            InvalidCatalog: for text that is neither YAML nor JSON, keys that are there twice, or too large a file.
        """
        raw = file.read(MAX_TEMPLATE + 1)
        if len(raw) > MAX_TEMPLATE:
            told = f"it has more than {MAX_TEMPLATE} bytes"
            raise_findings([CatalogFinding(SourceLocation(name), told, advice="Write a template for each package.")])
        documents, faults = [], []
        for one in read_documents(raw):
            if isinstance(one, InvalidDocument):
                told = f"it can't be read as YAML or JSON: {one.problem}"
                faults.append(CatalogFinding(SourceLocation(name, one.line), told, advice="Correct the syntax there."))
                continue
            documents.append(one)
            for key, line, _ in one.duplicates:
                told = f"the key {key!r} is there twice, and only the last would count"
                faults.append(CatalogFinding(SourceLocation(name, line or one.line), told, advice="Keep one of them."))
        raise_findings(faults)
        return cls(name, raw, documents)

    @property
    def schema(self) -> str:
        """What the first document says it is, "" if it does not."""
        value = self.documents[0].value if self.documents else None
        schema = member(value, "schema") if isinstance(value, dict) else None
        return schema if isinstance(schema, str) else ""

    def only(self, schema: str) -> FieldReader:
        """The one mapping that the file holds, which says that it is of that schema; an empty one if there is none."""
        value = self.documents[0].value if self.documents else None
        advice = f"Write schema: {schema}, or name the type that the template has."
        if not isinstance(value, dict):
            self.tell((), f"the document is {describe(value)}, not a mapping", advice=advice)
        elif self.schema != schema:
            told = f"the schema is {self.schema!r}, not {schema!r}" if self.schema else "the document has no schema"
            self.tell(("schema",), told, advice=advice)
        for other in self.documents[1:]:
            advice = "Remove it, or write a file for each."
            self.faults.append(
                CatalogFinding(SourceLocation(self.name, other.line), "a template is one document", advice=advice)
            )
        return FieldReader(value if isinstance(value, dict) else {}, self._wrong_type)

    def tell(self, path: Path, problem: str, *, advice: str) -> None:
        """Note what is wrong with the value that ``path`` leads to."""
        self.faults.append(CatalogFinding(self.location(path), problem, advice=advice))

    def known(self, fields: FieldReader, *names: str) -> None:
        """Note members of other names than these, which match without regard to case."""
        folded = {name.lower(): name for name in names}
        for key in fields.value:
            if key.lower() not in folded:
                near = difflib.get_close_matches(key.lower(), folded, n=1, cutoff=0.75)
                advice = f"Write {folded[near[0]]}." if near else f"Remove it; there are {', '.join(names)}."
                path = (*fields.path, key)
                self.tell(path, f"{format_path(path)} is no field of a template", advice=advice)

    def blobs(self, name: str, values: Iterable[JsonValue]) -> Blobs:
        """The blobs in the list of the member ``name``, as far as they can be read."""
        documents = [
            Document(self.location((name, number)).line, sort_keys(value)) for number, value in enumerate(values)
        ]
        return self.load(documents)

    def load(self, documents: Iterable[Document]) -> Blobs:
        """The blobs that documents of this file hold, as far as they can be read."""
        loaded = load_documents(self.name, documents)
        self.faults += loaded.faults
        return loaded.blobs

    def raise_findings(self) -> None:
        """Raise InvalidCatalog with all faults, if there are any."""
        raise_findings(self.faults)

    def _wrong_type(self, path: Path, told: str) -> None:
        self.tell(path, f"{format_path(path)} {told}", advice="Write it so.")

    def location(self, path: Path) -> SourceLocation:
        """Where the value is that `path` leads to, or the nearest there is on the way."""
        line = self.documents[0].line if self.documents else 1
        if path and len(self.raw) <= MAX_LOCATED:
            line = Content(self.raw).locate(path)[0] or line
        return SourceLocation(self.name, line)
