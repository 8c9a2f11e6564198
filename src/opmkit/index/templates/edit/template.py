"""Template files whose text is edited: documents, blobs with their paths, and new content."""

from __future__ import annotations

import difflib
import io
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from opmkit.core.escape import escape_controls
from opmkit.documents.document_stream import BOM, Document, is_json, sort_keys
from opmkit.documents.text_edits import SourceText
from opmkit.index.fbc import blobs as schemas
from opmkit.index.fbc.blobs import Blobs, SourceLocation
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.load import load_documents
from opmkit.index.templates import basic, semver, substitutes
from opmkit.index.templates.document import TemplateFile
from opmkit.index.templates.render import TemplateType, template_type

if TYPE_CHECKING:
    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blob, ChannelBlob

_CATALOG_SCHEMAS = frozenset({schemas.PACKAGE, schemas.CHANNEL, schemas.BUNDLE, schemas.DEPRECATIONS})


@dataclass(frozen=True, slots=True)
class LocatedBlob:
    """A blob of a template, with the number of its document, its path in it, and its line."""

    blob: Blob
    document: int
    path: FieldPath
    location: SourceLocation


@dataclass(frozen=True)
class EditableTemplate:
    """A valid template. Edits return a new one and leave everything else in its text as it is.

    Attributes:
        name: The name of the file, for messages.
        raw: Its content.
        type: The type of the template.
        file: The decoded documents.
        texts: The text of each document.
    """

    name: str
    raw: bytes
    type: TemplateType
    file: TemplateFile
    texts: tuple[SourceText, ...]

    @classmethod
    def parse(cls, raw: bytes, name: str) -> EditableTemplate:
        """Parse the content of a file.

        Raises:
            InvalidCatalog: With file and line, for invalid syntax, types or fields.
            UneditableText: The file is not UTF-8.
        """
        file = TemplateFile.read(io.BytesIO(raw), name)
        type_ = TemplateType.BASIC if file.schema in _CATALOG_SCHEMAS else template_type(file)
        _check(file, type_)
        body = raw.removeprefix(BOM)
        texts = tuple(
            SourceText.from_document(name, body, document, is_json=is_json(body)) for document in file.documents
        )
        return cls(name, raw, type_, file, texts)

    @property
    def has_frame(self) -> bool:
        """Whether blobs are in the list ``entries`` of a document; otherwise each is its own document."""
        return self.file.schema not in _CATALOG_SCHEMAS

    @cached_property
    def located_blobs(self) -> tuple[LocatedBlob, ...]:
        """The blobs of a basic or substitutes template."""
        found: list[tuple[int, FieldPath, Document]]
        if not self.has_frame:
            found = [(number, (), document) for number, document in enumerate(self.file.documents)]
        else:
            key = actual_key(self.file.documents[0].value, "entries")
            entries = _member_list(self.file.documents[0].value, key)
            found = [
                (0, (key, index), Document(self.file.location((key, index)).line, sort_keys(value)))
                for index, value in enumerate(entries)
            ]
        return tuple(
            LocatedBlob(blob, number, path, SourceLocation(self.name, document.line))
            for number, path, document in found
            for blob in load_documents(self.name, [document]).blobs
        )

    def blobs(self) -> Blobs:
        """Return the blobs of a basic or substitutes template without their paths."""
        return Blobs.from_blobs(located.blob for located in self.located_blobs)

    def images(self) -> list[str]:
        """Return the images that a basic or semver template lists, each once."""
        if self.type is TemplateType.SEMVER:
            parsed = semver.SemverTemplate.parse(self.file, CatalogCompat.NEWEST, allow_empty=True)
            return list(dict.fromkeys(listed.image for images in parsed.images.values() for listed in images))
        return list(dict.fromkeys(bundle.image for bundle in self.blobs().bundles))

    def find_channel(self, package: str, name: str) -> tuple[LocatedBlob, ChannelBlob] | None:
        """Return a channel of a package, None if it does not exist."""
        for located in self.located_blobs:
            blob = located.blob
            if blob.schema == schemas.CHANNEL and (blob.package, blob.name) == (package, name):
                return located, blob  # type: ignore[return-value]
        return None

    def value_at(self, document: int, path: FieldPath) -> JsonValue:
        """Return the value at a path that exists."""
        value = self.texts[document].value
        for step in path:
            value = value[step]  # type: ignore[index]
        return value

    def insert(self, document: int, path: FieldPath, index: int, item: JsonValue) -> EditableTemplate:
        """Insert an item into a list; raises UneditableText, see `SourceText.insert`."""
        return self._with_text(document, self.texts[document].insert(path, index, item))

    def set(self, document: int, path: FieldPath, value: JsonValue) -> EditableTemplate:
        """Set a member of a mapping; raises UneditableText, see `SourceText.set`."""
        return self._with_text(document, self.texts[document].set(path, value))

    def remove(self, document: int, path: FieldPath) -> EditableTemplate:
        """Remove an item of a list; raises UneditableText, see `SourceText.remove`."""
        return self._with_text(document, self.texts[document].remove(path))

    def insert_blob(self, value: JsonValue, after: LocatedBlob | None) -> EditableTemplate:
        """Insert a blob after another one, or at the end."""
        if not self.has_frame:
            number = after.document if after else len(self.texts) - 1
            return self._with_text(number, self.texts[number].followed_by(value), documents=1)
        key = actual_key(self.texts[0].value, "entries")
        entries = _member_list(self.texts[0].value, key)
        index = after.path[-1] + 1 if after and isinstance(after.path[-1], int) else len(entries)
        return self.insert(0, (key,), index, value)

    def remove_blob(self, located: LocatedBlob) -> EditableTemplate:
        """Remove a blob; there must be others."""
        if self.has_frame:
            return self.remove(located.document, located.path)
        text = self.texts[located.document]
        return self._with_text(located.document, replace(text, text=""), documents=-1)

    def _with_text(self, number: int, text: SourceText, documents: int = 0) -> EditableTemplate:
        """Return the template with another text of a document, which has more documents than before, or fewer."""
        body = self.raw.removeprefix(BOM)
        document = self.file.documents[number]
        new = body[: document.start] + text.text.encode() + body[document.end :]
        parsed = EditableTemplate.parse(self.raw[: len(self.raw) - len(body)] + new, self.name)
        expected = [other.value for other in self.texts]
        found = [other.value for other in parsed.texts]
        if [*found[:number], *found[number + 1 + documents :]] != [*expected[:number], *expected[number + 1 :]]:
            raise text.error("an edit would change other documents as well")
        return parsed


def unified_diff(name: str, before: bytes, after: bytes) -> str:
    """Return the unified diff of two versions of a file, in which control characters are escaped."""
    old, new = (content.decode("utf-8", "replace").splitlines(keepends=True) for content in (before, after))
    lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(f"{escape_controls(line.rstrip(chr(10)).removesuffix(chr(13)))}\n" for line in lines)


def actual_key(value: JsonValue, name: str) -> str:
    """Return the key of a mapping that is read as ``name``: names match case-insensitively; ``name`` if none does."""
    keys = [key for key in value if key.lower() == name.lower()] if isinstance(value, dict) else []
    return name if name in keys or not keys else max(keys)


def _member_list(value: JsonValue, key: str) -> list[JsonValue]:
    items = value.get(key) if isinstance(value, dict) else None
    return items if isinstance(items, list) else []


def _check(file: TemplateFile, type_: TemplateType) -> None:
    """Raise InvalidCatalog for wrong types and unknown fields."""
    if type_ is TemplateType.BASIC:
        basic.read_entries(file)
    elif type_ is TemplateType.SUBSTITUTES:
        substitutes.read_template(file)
    else:
        semver.SemverTemplate.parse(file, CatalogCompat.NEWEST, allow_empty=True)
