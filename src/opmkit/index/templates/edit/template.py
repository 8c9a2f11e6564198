"""Template files whose text is edited: documents, blobs with their places, bundles and checks."""

from __future__ import annotations

import contextlib
import difflib
import io
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.source import BundleSource
from opmkit.bundle.versions import strict_version, version_key
from opmkit.core.errors import DiskError
from opmkit.core.escape import escape_controls
from opmkit.documents.document_stream import BOM, Document, is_json, sort_keys
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import member
from opmkit.documents.text_edits import SourceText
from opmkit.imagetools.errors import ImageToolsError, InvalidReference
from opmkit.imagetools.reference import Reference, named_path
from opmkit.index.errors import CatalogError
from opmkit.index.fbc import blobs as schemas
from opmkit.index.fbc.blobs import PACKAGE, BlobProperty, Blobs, BundleBlob, SourceLocation
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.result import find_warnings
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.csv_metadata import bundle_objects
from opmkit.index.fbc.findings import raise_findings
from opmkit.index.fbc.from_bundle import with_image
from opmkit.index.fbc.load import load_documents
from opmkit.index.fbc.model import version_keys, version_text
from opmkit.index.templates import basic, semver, substitutes
from opmkit.index.templates.document import TemplateFile
from opmkit.index.templates.render import TemplateType, template_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opmkit.bundle.versions import VersionKey
    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue
    from opmkit.index.fbc.blobs import Blob, ChannelBlob
    from opmkit.index.fbc.findings import CatalogFinding
    from opmkit.index.templates.renderer import BundleRenderer


_CATALOG_SCHEMAS = frozenset({schemas.PACKAGE, schemas.CHANNEL, schemas.BUNDLE, schemas.DEPRECATIONS})


class LocatedBlob(Struct, frozen=True):
    """A blob of a template, with the number of its document, its path in it, and its line."""

    blob: Blob
    document: int
    path: FieldPath
    location: SourceLocation


class EditableTemplate(Struct, frozen=True, dict=True):
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
        return self._with_text(located.document, structs.replace(text, text=""), documents=-1)

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


_IMAGE = "example.com/bundle:1"


def check_edit(before: EditableTemplate, after: EditableTemplate) -> tuple[str, ...]:
    """Return warnings about what an edit added to a template.

    Raises:
        InvalidCatalog: The edit makes the template invalid; locations are those before the edit.
    """
    old, new = (_with_bundles(template) for template in (before, after))
    locations = {_identity(blob): blob.location for blob in before.blobs()}
    end = before.file.location(())
    new = Blobs.from_blobs(replace(blob, location=locations.get(_identity(blob), end)) for blob in new)
    raise_findings(_added(check_blobs(old), check_blobs(new)))
    warnings = (find_warnings(_with_versions(blobs)) for blobs in (old, new))
    return tuple(map(str, _added(*warnings)))


def _identity(blob: Blob) -> tuple[str, str, str]:
    return blob.schema, blob.package, blob.name


def _added(before: Iterable[CatalogFinding], after: Iterable[CatalogFinding]) -> list[CatalogFinding]:
    known = {(finding.subject, finding.message) for finding in before}
    return [finding for finding in after if (finding.subject, finding.message) not in known]


def _with_bundles(template: EditableTemplate) -> Blobs:
    """Return the blobs with a bundle for each entry of a channel; those of a basic template have no names."""
    blobs = template.blobs()
    if template.type is not TemplateType.BASIC:
        return blobs
    return replace(blobs, bundles=tuple(_placeholders(blobs.channels)))


def _placeholders(channels: Iterable[ChannelBlob]) -> Iterator[BundleBlob]:
    named = {(channel.package, entry.name): channel for channel in channels for entry in channel.entries if entry.name}
    for number, ((package, name), channel) in enumerate(named.items()):
        value: JsonValue = {"packageName": package, "version": version_in_name(name) or f"0.0.0-unknown.{number}"}
        yield BundleBlob(name, package, _IMAGE, (BlobProperty(PACKAGE, value),), location=channel.location)


def _with_versions(blobs: Blobs) -> Blobs:
    """Return the blobs with those bundles that have a version in their names."""
    return replace(blobs, bundles=tuple(bundle for bundle in blobs.bundles if version_in_name(bundle.name)))


_VERSION_START = re.compile(r"\.v?(?=\d)")


@dataclass(frozen=True, slots=True)
class TemplateBundle:
    """A bundle that is added to a template.

    Attributes:
        name: The name of its ClusterServiceVersion.
        package: The name of its package.
        version: Its version.
        image: The image that the template lists.
        blob: What it is rendered to.
        digest: Returns the digest of the image in its registry, or "" if it cannot be asked.
        skip_range: The range in the annotation ``olm.skipRange``, or "" if there is none.
    """

    name: str
    package: str
    version: str
    image: str
    blob: BundleBlob
    skip_range: str = ""
    digest: Callable[[], str] = field(default=str, compare=False)

    @classmethod
    def from_blob(cls, blob: BundleBlob) -> TemplateBundle:
        """Return the bundle of a blob; raises CatalogError if it has no name, package, image or version."""
        try:
            version = version_text(blob)
            strict_version(version)
        except ValueError as error:
            message = f"{blob.image or blob.name}: invalid version: {error}"
            raise CatalogError(message, hint="correct the version of its ClusterServiceVersion") from error
        for value, noun in ((blob.name, "name"), (blob.package, "package")):
            if not value:
                raise CatalogError(
                    f"{blob.image or blob.name}: the bundle has no {noun}", hint="build it again with one"
                )
        return cls(blob.name, blob.package, version, blob.image, blob, _skip_range(blob))

    def with_listed_image(self, listed: Iterable[str]) -> TemplateBundle:
        """Return the bundle with its image as it is listed: images in a template may be pinned by digest."""
        images = set(listed)
        if self.image in images or not (own := _parse(self.image)):
            return self
        pinned = {
            reference.digest: text for text in images if (reference := _parse(text)) and reference.name == own.name
        }
        pinned.pop(None, None)
        with contextlib.suppress(ImageToolsError, DiskError):
            image = pinned.get(own.digest or self.digest()) if pinned else None
            return replace(self, image=image) if image else self
        return self

    def add_to(self, render: BundleRenderer) -> BundleRenderer:
        """Return a function that renders bundle images, but not that of this bundle, which is known."""

        def rendered(images: Sequence[str], /) -> dict[str, BundleBlob]:
            others = [image for image in images if image != self.image]
            found = {**(render(others) if others else {}), self.image: self.blob}
            return {image: found[image] for image in images}

        return rendered


def read_bundle(text: str, render: BundleRenderer, warn: Callable[[str], None]) -> TemplateBundle:
    """Render the bundle ``IMAGE`` or ``SOURCE=IMAGE``, whose image the template will list.

    Raises:
        CatalogError: It is a directory without an image, or not a bundle.
        ImageToolsError: The bundle cannot be read, or the image is invalid.
    """
    source, equals, image = text.rpartition("=")
    if equals:
        Reference.parse(image)
        return TemplateBundle.from_blob(with_image(render([source])[source], image))
    if (path := named_path(text)) and path.is_dir():
        raise CatalogError(
            f"{text}: a template lists images, not directories", hint=f"pass {text}=IMAGE with its image"
        )
    if BundleSource.parse(text).warning:
        warn(f"the template will list {text}, which clusters cannot pull; name it as {text}=REGISTRY/IMAGE")
    return TemplateBundle.from_blob(render([text])[text])


def _parse(image: str) -> Reference | None:
    """Return the reference to an image in a registry, None for other texts."""
    with contextlib.suppress(InvalidReference):
        return Reference.parse(image)
    return None


def _skip_range(blob: BundleBlob) -> str:
    with contextlib.suppress(InvalidDocument):
        for value in bundle_objects(blob):
            if isinstance(value, dict) and value.get("kind") == CSV_KIND:
                metadata = member(value, "metadata")
                annotations = member(metadata, "annotations") if isinstance(metadata, dict) else None
                text = annotations.get("olm.skipRange") if isinstance(annotations, dict) else None
                return text if isinstance(text, str) else ""
    return ""


@dataclass(slots=True)
class BundleVersions:
    """The versions of bundles by name.

    A version that is not known otherwise is that at the end of the name, such as ``lagoon-operator.v0.1.0``; if the
    name does not end with one, the bundles of the template are read.

    Attributes:
        known: Known versions.
        read: Returns the bundles that the template lists, by image; called at most once.
        use_names: Whether the names of the package's bundles end with their versions.
    """

    known: dict[str, VersionKey]
    read: Callable[[], Mapping[str, BundleBlob]]
    use_names: bool = True
    _listed: dict[str, BundleBlob] | None = field(default=None)

    @classmethod
    def with_bundle(cls, bundle: TemplateBundle, read: Callable[[], Mapping[str, BundleBlob]]) -> BundleVersions:
        """Return the versions for a template that a bundle is added to."""
        key = version_key(strict_version(bundle.version))
        return cls({bundle.name: key}, read, name_version(bundle.name) == key)

    def __call__(self, name: str) -> VersionKey | None:
        """Return the version of a bundle, None if the template does not list it."""
        if name not in self.known:
            key = name_version(name) if self.use_names else None
            if key is None:
                self.known = {**version_keys(self.listed().values(), lenient=True), **self.known}
                return self.known.get(name)
            self.known[name] = key
        return self.known[name]

    def listed(self) -> Mapping[str, BundleBlob]:
        """Return the bundles that the template lists, by image."""
        if self._listed is None:
            self._listed = dict(self.read())
        return self._listed

    def image_of(self, name: str) -> str:
        """Return the image of a bundle that the template lists, or "" if it lists none with that name."""
        return next((image for image, bundle in self.listed().items() if bundle.name == name), "")


def name_version(name: str) -> VersionKey | None:
    """Return the key of the version at the end of a name, None if there is none."""
    version = version_in_name(name)
    return version_key(strict_version(version)) if version else None


def version_in_name(name: str) -> str:
    """Return the version at the end of a name, or "" if there is none.

    >>> version_in_name("lagoon-operator.v0.1.0")
    '0.1.0'
    """
    for match in _VERSION_START.finditer(name):
        try:
            return str(strict_version(name[match.end() :]))
        except ValueError:
            continue
    return ""
