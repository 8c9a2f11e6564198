"""Files with images: find the images in manifests, catalogs and templates, and replace them in the text."""

from __future__ import annotations

import base64
import binascii
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import yaml
from msgspec import Struct

from opmkit.author.pin.object_images import (
    EmbeddedFile,
    ImageField,
    InvalidField,
    Role,
    UnpinnableUse,
    find_in_annotations,
    find_object_images,
    mapping,
    members,
    text,
    use_at,
)
from opmkit.bundle.errors import BundleError, InvalidBundle
from opmkit.bundle.kinds import CSV_KIND
from opmkit.documents.document_stream import BOM, is_json, leading_lines, read_documents
from opmkit.documents.errors import DocumentError, FieldTypeError, InvalidDocument
from opmkit.documents.fields import format_path
from opmkit.documents.source_nodes import compose_document, find_node, nearest_node
from opmkit.documents.text_edits import TextEdit, apply_edits, replace_in_scalar
from opmkit.index.fbc.blobs import BUNDLE, BUNDLE_OBJECT, CSV_METADATA
from opmkit.index.templates import basic, semver, substitutes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opmkit.author.pin.object_images import Finding, ImageFinder
    from opmkit.documents.document_stream import Document
    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue


class LocatedUse(Struct, frozen=True):
    """A place that names an image, and the document and the path that its line is taken from."""

    use: ImageField
    document: PinnableDocument
    path: FieldPath

    @property
    def image(self) -> str:
        """The image as it is written."""
        return self.use.image

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.document.file

    @property
    def line(self) -> int:
        """The line in the file; in an embedded file, the line of that file."""
        return self.document.line(self.path)

    def __str__(self) -> str:
        """Return the place as ``FILE:LINE``."""
        return f"{self.file}:{self.line}"


class PinnableFile(Struct, frozen=True):
    """A file and the documents in it that name images.

    Attributes:
        name: The name of the file, for messages.
        raw: The content.
        documents: The documents with images or embedded files, and ClusterServiceVersions.
        warnings: Images that cannot be pinned, with their lines.
    """

    name: str
    raw: bytes
    documents: tuple[PinnableDocument, ...]
    warnings: tuple[str, ...]

    @classmethod
    def read(cls, name: str, raw: bytes, find: ImageFinder, *, line: int = 0) -> PinnableFile:
        """Decode a file and find its images.

        Args:
            name: The name of the file, for messages.
            raw: Its content.
            find: Finds the images in a document.
            line: The line to report for all images, 0 for their own lines.

        Raises:
            InvalidBundle: A document is invalid, or a field has the wrong type; the error names the file and the line.
        """
        body = raw.removeprefix(BOM)
        documents: list[PinnableDocument] = []
        warnings: list[str] = []
        for document in read_documents(body):
            if isinstance(document, InvalidDocument):
                raise _invalid(name, document)
            pinnable = PinnableDocument(name, body, document, line)
            warnings += pinnable.find(find)
            if pinnable.uses or pinnable.embedded or pinnable.is_csv:
                documents.append(pinnable)
        return cls(name, raw, tuple(documents), tuple(warnings))

    def uses(self) -> Iterator[LocatedUse]:
        """Yield all places that name an image, those in embedded files as well."""
        for document in self.documents:
            yield from (LocatedUse(use, document, use.path) for use in document.uses)
            for path, file in document.embedded:
                yield from (LocatedUse(inner.use, document, path) for inner in file.uses())

    def replace(self, images: Mapping[str, str]) -> bytes:
        """Return the content with other images; raises InvalidBundle, see `PinnableDocument.replace`."""
        return self.edit(lambda document: document.replace(images))

    def edit(self, edit: Callable[[PinnableDocument], bytes]) -> bytes:
        """Return the content with edited documents."""
        body = self.raw.removeprefix(BOM)
        pieces, position = [self.raw[: len(self.raw) - len(body)]], 0
        for document in self.documents:
            pieces += [body[position : document.start], edit(document)]
            position = document.end
        return b"".join([*pieces, body[position:]])


class PinnableDocument:
    """A document with images.

    Attributes:
        value: The decoded value.
        uses: The places that name images.
        embedded: Files in base64 with their paths.
        start: Offset of the document in the file, without the byte order mark.
        end: Offset of the next document.
    """

    def __init__(self, file: str, body: bytes, document: Document, line: int = 0) -> None:
        """Create a document without images; ``line`` is the line to report for all values, 0 for their own lines."""
        self.value = document.value
        self.start, self.end = document.start, document.end
        self.uses: tuple[ImageField, ...] = ()
        self.embedded: tuple[tuple[FieldPath, PinnableFile], ...] = ()
        self.file = file
        self._body = body
        self._line = document.line
        self._fixed_line = line

    def find(self, find: ImageFinder) -> Iterator[str]:
        """Find the images; yield warnings about those that cannot be pinned."""
        uses: list[ImageField] = []
        embedded: list[tuple[FieldPath, PinnableFile]] = []
        try:
            for found in find(self.value):
                if isinstance(found, ImageField):
                    uses.append(found)
                elif isinstance(found, EmbeddedFile):
                    with self._prefix_errors(found.path):
                        file = PinnableFile.read(format_path(found.path), found.content, find_object_images)
                    embedded += [(found.path, file)] if file.documents else []
                    yield from (f"{self.file}:{self.line(found.path)}: {warning}" for warning in file.warnings)
                elif isinstance(found, UnpinnableUse):
                    yield f"{self.file}:{self.line(found.path)}: {found.message}"
        except InvalidField as error:
            location = f"{self.file}:{self.line(error.path)}"
            raise InvalidBundle(f"{location}: {error.message}", hint=error.hint) from error
        except RecursionError as error:
            raise InvalidBundle(f"{self.file}:{self._line}: too deeply nested", hint="correct the file") from error
        self.uses, self.embedded = tuple(uses), tuple(embedded)

    @contextmanager
    def _prefix_errors(self, path: FieldPath) -> Iterator[None]:
        """Prefix errors about an embedded file with the line that contains it."""
        try:
            yield
        except (InvalidBundle, FieldTypeError) as error:
            raise InvalidBundle(f"{self.file}:{self.line(path)}: {error.message}", hint=error.hint) from error

    @property
    def is_csv(self) -> bool:
        """Whether the document is a ClusterServiceVersion."""
        return isinstance(self.value, dict) and self.value.get("kind") == CSV_KIND

    @cached_property
    def text(self) -> str:
        """The text of the document, up to the next one."""
        try:
            return self._body[self.start : self.end].decode()
        except UnicodeDecodeError as error:
            raise InvalidBundle(f"{self.file}: not valid UTF-8", hint="convert the file to UTF-8") from error

    @cached_property
    def root(self) -> yaml.Node:
        """The root of the node graph of the text."""
        try:
            return compose_document(self.text, is_json=self.is_json)
        except InvalidDocument as error:
            line = self._start_line + error.line - 1 if error.line else self._line
            raise InvalidBundle(f"{self.file}:{line}: {error.problem}", hint="correct the file") from error

    @cached_property
    def _start_line(self) -> int:
        """The line in the file where the text begins; to count the lines before it would take long in a catalog."""
        return self._line - leading_lines(self.text.encode()).count(b"\n")

    @property
    def is_json(self) -> bool:
        """Whether the document is JSON, not YAML."""
        return is_json(self._body)

    def line(self, path: FieldPath) -> int:
        """Return the line in the file, from 1, of the value at a path, or of its nearest existing parent."""
        if self._fixed_line:
            return self._fixed_line
        index = nearest_node(self.root, path).start_mark.index
        return self._start_line + self.text.count("\n", 0, index)

    def replace(self, images: Mapping[str, str], *, value: JsonValue = None, edits: tuple[TextEdit, ...] = ()) -> bytes:
        """Return the text of the document with other images.

        Args:
            images: The images to replace, and their replacements.
            value: The value that the document has after further edits, None without any.
            edits: The further edits of the text.

        Raises:
            InvalidBundle: An image cannot be replaced without other changes; the error names the file and the line.
        """
        expected = self.value if value is None else value
        changes = list(edits)
        for use in sorted(self.uses, key=lambda use: -use.start):  # replacements move what is behind them
            new = images.get(use.image, use.image)
            if new != use.image:
                changes.append(self._edit(use.path, use.start, use.image, new))
                expected = splice(expected, use.path, use.start, use.image, new)
        for path, file in self.embedded:
            with self._prefix_errors(path):
                content = file.replace(images)
            if content != file.raw:
                new = base64.b64encode(content).decode()
                old = value_at(self.value, path)
                changes.append(self._edit(path, 0, old, new))
                expected = splice(expected, path, 0, old, new)
        if not changes:
            return self._body[self.start : self.end]
        text = apply_edits(self.text, changes)
        self._verify(text, expected)
        return text.encode()

    def _edit(self, path: FieldPath, start: int, old: str, new: str) -> TextEdit:
        node = find_node(self.root, path)
        try:
            if not isinstance(node, yaml.ScalarNode):
                raise BundleError(f"{old} cannot be found in the text", hint="write it without aliases and merge keys")
            return replace_in_scalar(self.text, node, start, old, new)
        except (BundleError, DocumentError) as error:
            raise InvalidBundle(f"{self.file}:{self.line(path)}: {error.message}", hint=error.hint) from error

    def _verify(self, text: str, expected: JsonValue) -> None:
        """Raise InvalidBundle unless the new text has the expected value."""
        found = list(read_documents(text.encode()))
        if len(found) != 1 or isinstance(found[0], InvalidDocument) or found[0].value != expected:
            raise InvalidBundle(
                f"{self.file}:{self._line}: pinning would change other values as well",
                hint="write the images without anchors, aliases and merge keys",
            )


def value_at(value: JsonValue, path: FieldPath) -> str:
    """Return the string at a path that exists."""
    for step in path:
        if isinstance(value, dict):
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
    return value if isinstance(value, str) else ""


def splice(value: JsonValue, path: FieldPath, start: int, old: str, new: str) -> JsonValue:
    """Return a copy of a value in which a part of the string at a path is replaced."""
    if isinstance(value, str):
        return value[:start] + new + value[start + len(old) :]
    step, *rest = path
    if isinstance(value, dict):
        return {**value, str(step): splice(value[str(step)], tuple(rest), start, old, new)}
    if isinstance(value, list) and isinstance(step, int):
        return [*value[:step], splice(value[step], tuple(rest), start, old, new), *value[step + 1 :]]
    return value


def _invalid(name: str, error: InvalidDocument) -> InvalidBundle:
    return InvalidBundle(f"{error.located(name)}: invalid YAML or JSON", hint="correct the file")


_ARCHETYPES = ("candidate", "fast", "stable")
_TEMPLATES = (basic.SCHEMA, substitutes.SCHEMA)


def find_catalog_images(value: JsonValue) -> Iterator[Finding]:
    """Yield the images in a document: a blob of a catalog, a template, or a Kubernetes object.

    Raises:
        InvalidField: A field has the wrong type.
    """
    if not isinstance(value, dict):
        return
    schema = value.get("schema")
    if schema == BUNDLE:
        yield from _find_in_bundle(value, ())
    elif schema == semver.SCHEMA:
        yield from _find_in_semver(value)
    elif schema in _TEMPLATES:
        for path, entry in _entries(value, "entries", ()):
            if entry.get("schema") == BUNDLE:
                yield from _find_in_bundle(entry, path)
        for path, entry in _entries(value, "substitutions", ()):
            yield from use_at(entry, _key(entry, "name"), path, Role.BUNDLE, "")
    elif schema is None and "kind" in value:
        yield from find_object_images(value)


def _find_in_bundle(blob: Mapping[str, JsonValue], path: FieldPath) -> Iterator[Finding]:
    name = text(blob.get("name"), (*path, "name"))
    yield from use_at(blob, _key(blob, "image"), path, Role.BUNDLE, name)
    for entry_path, entry in _entries(blob, "relatedImages", path):
        name = text(entry.get("name"), (*entry_path, "name"))
        yield from use_at(entry, _key(entry, "image"), entry_path, Role.RELATED_IMAGE, name)
    for entry_path, entry in _entries(blob, "properties", path):
        value_path = (*entry_path, "value")
        if entry.get("type") == CSV_METADATA:
            metadata = mapping(entry.get("value"), value_path)
            yield from find_in_annotations(metadata.get("annotations"), (*value_path, "annotations"))
        elif entry.get("type") == BUNDLE_OBJECT:
            yield from _find_in_object(entry.get("value"), value_path)


def _find_in_object(value: JsonValue, path: FieldPath) -> Iterator[Finding]:
    """Yield the file of a bundle that a property contains; one in an unknown form is skipped."""
    data = value.get("data") if isinstance(value, dict) else None
    if not isinstance(data, str):
        return
    try:
        yield EmbeddedFile(base64.b64decode("".join(data.split()), validate=True), (*path, "data"))
    except binascii.Error:
        message = f"{format_path(path)}.data is not base64: images in it cannot be pinned"
        yield UnpinnableUse(message, (*path, "data"))


def _find_in_semver(value: Mapping[str, JsonValue]) -> Iterator[Finding]:
    for archetype in _ARCHETYPES:
        key = _key(value, archetype)
        for path, entry in _entries(mapping(value.get(key), (key,)), "bundles", (key,)):
            yield from use_at(entry, _key(entry, "image"), path, Role.BUNDLE, archetype)


def _entries(
    value: Mapping[str, JsonValue], name: str, path: FieldPath
) -> Iterator[tuple[FieldPath, Mapping[str, JsonValue]]]:
    key = _key(value, name)
    return members(value.get(key), (*path, key))


def _key(value: Mapping[str, JsonValue], name: str) -> str:
    """Return the key of a member, which may differ from its name in case, as readers of catalogs accept it."""
    return name if name in value else next((key for key in value if key.lower() == name.lower()), name)
