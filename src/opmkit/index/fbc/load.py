"""Loading of file-based catalogs: directories of JSON or YAML files with blobs, with any names."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.finding import Severity
from opmkit.core.files import disk_errors, open_regular
from opmkit.documents.document_stream import read_document_file, read_documents
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import describe, member
from opmkit.index.fbc import blobs as schemas
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
from opmkit.index.fbc.fields import FieldReader
from opmkit.index.fbc.findings import CatalogFinding, raise_findings
from opmkit.index.fbc.walk import iter_catalog_files
from opmkit.index.suggestions import closest_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path as FilePath

    from opmkit.documents.document_stream import Document
    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.fields import Path

MAX_FILE = 1 << 30
"""Bytes of a file of a catalog."""
_DOCUMENT_HINT = "Correct it, or move it out of the catalog or list it in an .indexignore file if it is not part of it."
_TYPE_HINT = "Give the field a value of that type; strings such as 1.0 or true need quotes."


class LoadResult(Struct, frozen=True):
    """The blobs of a catalog, with the errors and warnings about their syntax and types."""

    blobs: Blobs
    errors: tuple[CatalogFinding, ...] = ()
    warnings: tuple[CatalogFinding, ...] = ()


def read_blobs(root: FilePath) -> Blobs:
    """Read a catalog directory.

    Raises:
        InvalidCatalog: Documents are invalid; the error lists all findings.
        DiskError: A file can't be read.
    """
    loaded = load_directory(root)
    raise_findings(loaded.errors)
    return loaded.blobs


def stream_blobs(root: FilePath) -> Iterator[Blob]:
    """Yield the blobs of a catalog directory one at a time, in the order of its files and their documents.

    Raises:
        InvalidCatalog: Documents are invalid; the error is raised after the last blob, and lists all findings.
        DiskError: A file can't be read.
    """
    loader = _Loader()
    for name, path in iter_catalog_files(root):
        yield from loader.load_path(name, path)
    raise_findings(loader.errors)


def load_directory(root: FilePath) -> LoadResult:
    """Read a catalog directory, without the documents that are invalid.

    Raises:
        DiskError: A file can't be read.
    """
    loader = _Loader()
    files = iter_catalog_files(root)
    blobs = Blobs.from_blobs(blob for name, path in files for blob in loader.load_path(name, path))
    return LoadResult(blobs, tuple(loader.errors), tuple(loader.warnings))


def load_files(files: Iterable[tuple[str, bytes]]) -> LoadResult:
    """Read files, given as pairs of the name for messages and the content, without the documents that are invalid."""
    loader = _Loader()
    blobs = Blobs.from_blobs([blob for name, raw in files for blob in loader.load_file(name, raw)])
    return LoadResult(blobs, tuple(loader.errors), tuple(loader.warnings))


def load_documents(name: str, documents: Iterable[Document]) -> LoadResult:
    """Read documents of the file ``name``, without those that are invalid."""
    loader = _Loader()
    blobs = Blobs.from_blobs(loader.load(name, documents))
    return LoadResult(blobs, tuple(loader.errors), tuple(loader.warnings))


def parse_blobs(raw: bytes, name: str) -> Blobs:
    """Read the content of a file; ``name`` is its name for messages.

    Raises:
        InvalidCatalog: Documents are invalid; the error lists all findings.
    """
    loaded = load_files([(name, raw)])
    raise_findings(loaded.errors)
    return loaded.blobs


def read_file(path: FilePath) -> bytes:
    """Return the content of a file of a catalog.

    Raises:
        InvalidCatalog: The file is larger than `MAX_FILE` bytes.
        DiskError: The file can't be read.
    """
    with disk_errors(path):
        _check_size(path)
        with open_regular(path) as file:
            return file.read()


def _check_size(path: FilePath) -> None:
    if path.stat().st_size > MAX_FILE:
        raise_findings([CatalogFinding(f"larger than {MAX_FILE} bytes", file=str(path), rule="FBC-FILE-SIZE")])


class _Loader(Struct):
    """Decoder of blobs that collects findings."""

    errors: list[CatalogFinding] = []
    warnings: list[CatalogFinding] = []

    def load_file(self, name: str, raw: bytes) -> Iterator[Blob]:
        return self.load(name, read_documents(raw, include_empty=True))

    def load_path(self, name: str, path: FilePath) -> Iterator[Blob]:
        with disk_errors(path):
            _check_size(path)
            with open_regular(path) as file:
                yield from self.load(name, read_document_file(file, include_empty=True))

    def load(self, name: str, documents: Iterable[Document | InvalidDocument]) -> Iterator[Blob]:
        for document in documents:
            location = SourceLocation(name, document.line)
            if isinstance(document, InvalidDocument):
                message = f"invalid YAML or JSON: {document.problem}"
                self.errors.append(CatalogFinding(message, hint=_DOCUMENT_HINT, rule="FBC-SYNTAX").at(location))
            elif (blob := self._load_blob(document, location)) is not None:
                yield blob

    def _load_blob(self, document: Document, location: SourceLocation) -> Blob | None:
        for key, line, _ in document.duplicates:
            key_location = SourceLocation(location.file, line or location.line)
            message = f"duplicate key {key!r}: only the last value counts"
            warning = CatalogFinding(
                message, hint="Keep one of them.", severity=Severity.WARNING, rule="FBC-KEY-DUPLICATE"
            )
            self.warnings.append(warning.at(key_location))
        if not isinstance(document.value, dict):
            kind = f"the document is {describe(document.value)}, not a mapping with a schema"
            message = "empty document" if document.value is None else kind
            self.errors.append(CatalogFinding(message, hint=_DOCUMENT_HINT, rule="FBC-DOCUMENT").at(location))
            return None
        self.errors += [finding.at(location) for finding in _check_keys(document.value)]
        reader = FieldReader(document.value, lambda path, problem: self._report(location, path, problem))
        schema = reader.string("schema")
        if not schema:
            hint = "Set the schema, such as schema: olm.bundle."
            if "apiVersion" in document.value and "kind" in document.value:
                hint = "Pass a catalog: Kubernetes manifests belong to a bundle, which is added to a catalog first."
            self.errors.append(CatalogFinding("the document has no schema", hint=hint, rule="FBC-SCHEMA").at(location))
            return None
        self.warnings += [finding.at(location) for finding in _find_misspellings(schema, document.value)]
        decode = _DECODERS.get(schema)
        if decode is not None:
            return decode(reader, location)
        return OtherBlob(schema, reader.string("name"), reader.string("package"), document.value, location)

    def _report(self, location: SourceLocation, path: Path, problem: str) -> None:
        field_path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
        self.errors.append(CatalogFinding(f"{field_path} {problem}", hint=_TYPE_HINT, rule="FBC-TYPE").at(location))


def _check_keys(document: Mapping[str, JsonValue]) -> Iterator[CatalogFinding]:
    """Yield findings, without locations, about the keys of a document; unlike others, some must not be null."""
    by_folded: defaultdict[str, list[str]] = defaultdict(list)
    for key in document:
        by_folded[key.casefold()].append(key)
    for keys in by_folded.values():
        if len(keys) > 1:
            yield CatalogFinding(
                f"the keys {' and '.join(keys)} differ only in case", hint="Keep one of them.", rule="FBC-KEY-CASE"
            )
    for name in ("schema", "package", "name"):
        if any(document[key] is None for key in by_folded.get(name, ())):
            yield CatalogFinding(f"{name} is null, not a string", hint=_TYPE_HINT, rule="FBC-TYPE")


def _find_misspellings(schema: str, document: Mapping[str, JsonValue]) -> Iterator[CatalogFinding]:
    """Yield warnings, without locations, about schemas and keys that resemble those of OLM; others are legal."""
    keys = _KEYS.get(schema)
    if keys is None:
        if similar := closest_name(schema, _KEYS):
            message = f'unknown schema "{schema}": the document is not part of a package'
            hint = f"Did you mean {similar}?"
            yield CatalogFinding(message, hint=hint, severity=Severity.WARNING, rule="FBC-SCHEMA-UNKNOWN")
        return
    yield from _find_unknown_keys("", document, keys)
    entries = member(document, "entries")
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict):
            yield from _find_unknown_keys(f"entries[{number}].", entry, _ENTRY_KEYS[schema])


def _find_unknown_keys(
    prefix: str, mapping: Mapping[str, JsonValue], known: Mapping[str, str]
) -> Iterator[CatalogFinding]:
    for key in mapping:
        if key not in known and key.lower() not in known.values() and (similar := closest_name(key, known)):
            yield CatalogFinding(
                f'unknown key "{prefix}{key}" is ignored',
                hint=f"Did you mean {similar}?",
                severity=Severity.WARNING,
                rule="FBC-KEY-UNKNOWN",
            )


def _decode_package(reader: FieldReader, location: SourceLocation) -> PackageBlob:
    icon = reader.mapping("icon")
    return PackageBlob(
        reader.string("name"),
        reader.string("defaultChannel"),
        Icon(icon.string("base64data"), icon.string("mediatype")) if icon else None,
        reader.string("description"),
        _decode_properties(reader),
        location,
    )


def _decode_channel(reader: FieldReader, location: SourceLocation) -> ChannelBlob:
    entries = tuple(
        EntryBlob(entry.string("name"), entry.string("replaces"), entry.strings("skips"), entry.string("skipRange"))
        for entry in reader.mappings("entries")
    )
    has_list = reader.any("entries") is not None
    name, package, properties = reader.string("name"), reader.string("package"), _decode_properties(reader)
    return ChannelBlob(name, package, entries, properties, location, has_list)


def _decode_bundle(reader: FieldReader, location: SourceLocation) -> BundleBlob:
    images = tuple(
        RelatedImage(related.string("name"), related.string("image")) for related in reader.mappings("relatedImages")
    )
    properties = _decode_properties(reader, require_value=True)
    name, package, image = (reader.string(key) for key in ("name", "package", "image"))
    return BundleBlob(name, package, image, properties, images, location)


def _decode_deprecations(reader: FieldReader, location: SourceLocation) -> DeprecationsBlob:
    entries = tuple(map(_decode_deprecation, reader.mappings("entries")))
    return DeprecationsBlob(reader.string("package"), entries, location, reader.any("entries") is not None)


def _decode_deprecation(reader: FieldReader) -> Deprecation:
    reference = reader.mapping("reference")
    schema, name = (reference.string("schema"), reference.string("name")) if reference else ("", "")
    return Deprecation(schema, name, reader.string("message"))


def _decode_properties(reader: FieldReader, *, require_value: bool = False) -> tuple[BlobProperty, ...]:
    """Return the properties; with ``require_value``, report those without a value, which may be null."""
    properties = []
    for prop in reader.mappings("properties"):
        value = prop.any("value")
        if require_value and value is None and all(key.lower() != "value" for key in prop.value):
            prop.report((*prop.path, "value"), "is missing")
        properties.append(BlobProperty(prop.string("type"), value))
    return tuple(properties)


def _keys(*names: str) -> Mapping[str, str]:
    """Map names to lower case, since case does not matter."""
    return {name: name.lower() for name in names}


_KEYS: Mapping[str, Mapping[str, str]] = {
    schemas.PACKAGE: _keys("schema", "name", "defaultChannel", "icon", "description", "properties"),
    schemas.CHANNEL: _keys("schema", "package", "name", "entries", "properties"),
    schemas.BUNDLE: _keys("schema", "package", "name", "image", "properties", "relatedImages"),
    schemas.DEPRECATIONS: _keys("schema", "package", "entries"),
}
_ENTRY_KEYS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(_KEYS, _keys()),
    schemas.CHANNEL: _keys("name", "replaces", "skips", "skipRange"),
    schemas.DEPRECATIONS: _keys("reference", "message"),
}
_DECODERS: dict[str, Callable[[FieldReader, SourceLocation], Blob]] = {
    schemas.PACKAGE: _decode_package,
    schemas.CHANNEL: _decode_channel,
    schemas.BUNDLE: _decode_bundle,
    schemas.DEPRECATIONS: _decode_deprecations,
}
