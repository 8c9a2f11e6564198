"""Reading file-based catalogs: directories of files with blobs, whatever their names."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from opmkit.bundle.errors import InvalidDocument
from opmkit.bundle.fields import describe
from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.fbc import blobs as kinds
from opmkit.index.fbc.blobs import (
    Blob,
    BlobProperty,
    Blobs,
    BundleBlob,
    ChannelBlob,
    Deprecation,
    DeprecationsBlob,
    EntryBlob,
    Icon,
    OtherBlob,
    PackageBlob,
    RelatedImage,
    SourceLocation,
)
from opmkit.index.fbc.documents import read_documents
from opmkit.index.fbc.fields import FieldReader
from opmkit.index.fbc.findings import CatalogFinding, raise_findings
from opmkit.index.fbc.walk import iter_catalog_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path as FilePath

    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.fbc.documents import Document
    from opmkit.index.fbc.fields import Path

T = TypeVar("T")
MAX_FILE = 1 << 30
"""Bytes that a file of a catalog may have."""
_NO_DOCUMENT = "Correct it; keep what is no part of the catalog elsewhere, or name it in an .indexignore file."
_WRONG_TYPE = "Give the field a value of that type; texts such as 1.0 or true need quotes."


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What was read, and all that is wrong with it as far as reading tells; ``duplicates`` are keys told twice."""

    blobs: Blobs
    faults: tuple[CatalogFinding, ...] = ()
    duplicates: tuple[CatalogFinding, ...] = ()


def read_blobs(root: FilePath) -> Blobs:
    """Read a catalog directory.

    Raises:
        InvalidCatalog: with all that is wrong with the documents, each with its file and line.
        StoreError: if it can't be read.
    """
    loaded = load_directory(root)
    raise_findings(loaded.faults)
    return loaded.blobs


def load_directory(root: FilePath) -> LoadResult:
    """Read a catalog directory, as far as that is possible; raises StoreError."""
    return load_files(((name, read_file(path)) for name, path in iter_catalog_files(root)))


def load_files(files: Iterable[tuple[str, bytes]]) -> LoadResult:
    """Read the contents of files, each with the name that it is told by."""
    reader = _Reader()
    blobs = Blobs.from_blobs([blob for name, raw in files for blob in reader.file(name, raw)])
    return LoadResult(blobs, tuple(reader.faults), tuple(reader.duplicates))


def load_documents(name: str, documents: Iterable[Document]) -> LoadResult:
    """Read documents of the file ``name``, each with the line at which it begins."""
    reader = _Reader()
    blobs = Blobs.from_blobs(reader.documents(name, documents))
    return LoadResult(blobs, tuple(reader.faults), tuple(reader.duplicates))


def parse_blobs(raw: bytes, name: str) -> Blobs:
    """Read the blobs in one text; raises InvalidCatalog."""
    loaded = load_files([(name, raw)])
    raise_findings(loaded.faults)
    return loaded.blobs


def read_file(path: FilePath) -> bytes:
    """The bytes of a file of a catalog; raises InvalidCatalog if it is too large, StoreError if it can't be read."""
    with disk_errors(path):
        if path.stat().st_size > MAX_FILE:
            raise_findings([CatalogFinding(SourceLocation(str(path)), f"it has more than {MAX_FILE} bytes")])
        return path.read_bytes()


@dataclass(slots=True)
class _Reader:
    """Reads files one after the other."""

    faults: list[CatalogFinding] = field(default_factory=list)
    duplicates: list[CatalogFinding] = field(default_factory=list)

    def file(self, name: str, raw: bytes) -> Iterator[Blob]:
        return self.documents(name, read_documents(raw, empty=True))

    def documents(self, name: str, documents: Iterable[Document | InvalidDocument]) -> Iterator[Blob]:
        for document in documents:
            if isinstance(document, InvalidDocument):
                told = f"it can't be read as YAML or JSON: {document.problem}"
                self.faults.append(CatalogFinding(SourceLocation(name, document.line), told, advice=_NO_DOCUMENT))
            else:
                blob = self._blob(document, SourceLocation(name, document.line))
                if blob is not None:
                    yield blob

    def _blob(self, document: Document, location: SourceLocation) -> Blob | None:
        for key, line, _ in document.duplicates:
            at = SourceLocation(location.file, line or location.line)
            told = f"the key {key!r} is there twice, and only the last counts"
            self.duplicates.append(CatalogFinding(at, told, advice="Keep one of them."))
        if not isinstance(document.value, dict):
            told = f"the document is {describe(document.value)}, not a mapping with a schema"
            self.faults.append(CatalogFinding(location, told, advice=_NO_DOCUMENT))
            return None
        self.faults += [CatalogFinding(location, told, advice=advice) for told, advice in _key_faults(document.value)]
        fields = FieldReader(document.value, lambda path, told: self._tell(location, path, told))
        schema = fields.text("schema")
        if not schema:
            advice = "Say what it is, such as schema: olm.bundle."
            self.faults.append(CatalogFinding(location, "the document has no schema", advice=advice))
            return None
        read = _READERS.get(schema)
        if read is not None:
            return read(fields, location)
        return OtherBlob(schema, fields.text("name"), fields.text("package"), document.value, location)

    def _tell(self, location: SourceLocation, path: Path, told: str) -> None:
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
        self.faults.append(CatalogFinding(location, f"{where} {told}", advice=_WRONG_TYPE))


def _key_faults(document: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    """What is wrong with the keys of a document, of which some must not be null, unlike those of what is in it."""
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for key in document:
        alike[key.casefold()].append(key)
    for keys in alike.values():
        if len(keys) > 1:
            yield f"the keys {' and '.join(keys)} differ in case alone", "Keep one of them."
    for name in ("schema", "package", "name"):
        if any(document[key] is None for key in alike.get(name, ())):
            yield f"{name} is nothing, not a string", _WRONG_TYPE


def _package(fields: FieldReader, location: SourceLocation) -> PackageBlob:
    icon = fields.mapping("icon")
    return PackageBlob(
        fields.text("name"),
        fields.text("defaultChannel"),
        Icon(icon.text("base64data"), icon.text("mediatype")) if icon else None,
        fields.text("description"),
        _properties(fields),
        location,
    )


def _channel(fields: FieldReader, location: SourceLocation) -> ChannelBlob:
    entries = tuple(
        EntryBlob(each.text("name"), each.text("replaces"), each.texts("skips"), each.text("skipRange"))
        for each in fields.mappings("entries")
    )
    return ChannelBlob(fields.text("name"), fields.text("package"), entries, _properties(fields), location)


def _bundle(fields: FieldReader, location: SourceLocation) -> BundleBlob:
    images = tuple(RelatedImage(each.text("name"), each.text("image")) for each in fields.mappings("relatedImages"))
    properties = _properties(fields, valued=True)
    return BundleBlob(fields.text("name"), fields.text("package"), fields.text("image"), properties, images, location)


def _deprecations(fields: FieldReader, location: SourceLocation) -> DeprecationsBlob:
    entries = tuple(map(_deprecation, fields.mappings("entries")))
    return DeprecationsBlob(fields.text("package"), entries, location)


def _deprecation(fields: FieldReader) -> Deprecation:
    reference = fields.mapping("reference")
    schema, name = (reference.text("schema"), reference.text("name")) if reference else ("", "")
    return Deprecation(schema, name, fields.text("message"))


def _properties(fields: FieldReader, *, valued: bool = False) -> tuple[BlobProperty, ...]:
    """The properties, of which those of bundles are refused without a value, be it null."""
    found = []
    for each in fields.mappings("properties"):
        value = each.value_of("value")
        if valued and value is None and all(key.lower() != "value" for key in each.value):
            each.tell((*each.path, "value"), "is missing")
        found.append(BlobProperty(each.text("type"), value))
    return tuple(found)


_READERS: dict[str, Callable[[FieldReader, SourceLocation], Blob]] = {
    kinds.PACKAGE: _package,
    kinds.CHANNEL: _channel,
    kinds.BUNDLE: _bundle,
    kinds.DEPRECATIONS: _deprecations,
}
