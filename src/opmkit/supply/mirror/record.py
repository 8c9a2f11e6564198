"""Records of what mirrors put into a registry: artifacts in the repositories of catalogs, one for each subject.

A subject is a catalog in the repository by its tag, or a list of other images of an image set. The record is written
before anything is copied, so that it covers what an interrupted mirror has put there. Each subject has a tag of its
own: a registry cannot compare and move a tag, so a slow writer of one subject would replace the records of others.
"""

from __future__ import annotations

import io
import re
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from opmkit.imagetools.errors import (
    AuthenticationFailed,
    InvalidImage,
    InvalidReference,
    NotFound,
    RegistryUnavailable,
    UnsupportedImage,
    prefix_errors,
)
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.repository import update_tag
from opmkit.imagetools.spec import Descriptor, Manifest, check_digest, media_types, sha256_digest
from opmkit.imagetools.spec.fields import Fields, dump_json, invalid_field

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from opmkit.imagetools.repository import ImageSource, Repository
    from opmkit.imagetools.spec import IndexManifest

RECORD_TAG = "mirror-record"
"""The tag of an artifact without records, which shows that a repository without other tags is empty."""
_RECORD_TAG = re.compile(RECORD_TAG + "(-[0-9a-f]{16})?")
RECORD_TYPE = "application/vnd.opmkit.mirror.record.v1+json"
_SUBJECT = "org.opencontainers.image.title"
_CATALOG, _LIST = "catalog:", "images:"
_ANY_REGISTRY = "registry.invalid"
_VERSION = 1
_MAX_SIZE = 128 << 20
"""Bytes of the record of one subject, which has about 500 for an image."""
_MAX_IMAGES = 1 << 19
_EMPTY = b"{}"
_EMPTY_DESCRIPTOR = Descriptor(media_types.OCI_EMPTY, sha256_digest(_EMPTY), len(_EMPTY))

ManifestName: TypeAlias = tuple[str, str]
"""A repository of the registry, without its host, and the digest of a manifest in it."""


class RecordSubject(Struct, frozen=True):
    """A version of what one record lists the images of.

    Attributes:
        name: The name that the repository with the record is derived from, that of the catalog for a catalog.
        title: The subject, see `catalog_subject` and `list_subject`.
        version: The digest of the catalog, or the name of the list.
        configuration: The configuration that is mirrored, see `opmkit.supply.mirror.recording.configuration_key`.
    """

    name: str
    title: str
    version: str
    configuration: str

    @property
    def is_list(self) -> bool:
        """Whether it is a list of images."""
        return self.title.startswith(_LIST)

    @classmethod
    def from_json(cls, value: object, path: str) -> RecordSubject:
        """Parse a JSON object with the names of the attributes; raises InvalidImage."""
        fields = Fields.from_value(value, path)
        return cls(*(fields.string(name) for name in cls.__struct_fields__))


class RecordedImage(Struct, frozen=True):
    """An image of a mirror.

    Attributes:
        source: The reference that it was mirrored from.
        repository: Its repository in the registry.
        tag: Its tag there.
        digest: Its digest.
        versions: The versions of the subject that need it.
        put: The digests of its manifests that the repository lacked before the mirror.
        is_tag_set: Whether the mirror set the tag, which did not name the image before.
    """

    source: str
    repository: str
    tag: str
    digest: str
    versions: tuple[str, ...] = ()
    put: tuple[str, ...] = ()
    is_tag_set: bool = False

    def merge(self, other: RecordedImage) -> RecordedImage:
        """Return the image for the versions of both, put by either."""
        return replace(
            self,
            versions=_union(self.versions, other.versions),
            put=_union(self.put, other.put),
            is_tag_set=self.is_tag_set or other.is_tag_set,
        )

    def to_json(self, versions: Mapping[str, int]) -> dict[str, object]:
        """Return the JSON object, in which versions are positions."""
        value = {"source": self.source, "repository": self.repository, "tag": self.tag, "digest": self.digest}
        optional = {
            "versions": [versions[each] for each in self.versions],
            "put": list(self.put),
            "tagged": self.is_tag_set,
        }
        return value | {key: item for key, item in optional.items() if item}

    @classmethod
    def from_json(cls, value: object, path: str, versions: tuple[str, ...]) -> RecordedImage:
        """Parse a JSON object; raises InvalidImage."""
        fields = Fields.from_value(value, path)
        fields.require_only("source", "repository", "tag", "digest", "versions", "put", "tagged")
        image = cls(
            fields.string("source"),
            fields.string("repository"),
            fields.string("tag"),
            check_digest(fields.string("digest")),
            tuple(versions[at] for at in fields.positions("versions", len(versions))),
            tuple(map(check_digest, fields.strings("put"))),
            fields.boolean("tagged"),
        )
        try:
            Reference(_ANY_REGISTRY, image.repository, image.tag)
        except InvalidReference as error:
            raise InvalidImage(f"{path}: {error.message}", hint=error.hint) from error
        return image


class MirrorRecord(Struct, frozen=True):
    """The images of a subject in a registry.

    Attributes:
        versions: The versions, the last one last: the digests of a catalog, or the name of a list of images.
        configurations: The keys of the configurations by which a catalog was mirrored.
        images: The images, each once.
    """

    versions: tuple[str, ...] = ()
    configurations: tuple[str, ...] = ()
    images: tuple[RecordedImage, ...] = ()

    def merge(self, other: MirrorRecord) -> MirrorRecord:
        """Return the images of both; the versions of ``other`` become the last ones."""
        earlier = tuple(each for each in self.versions if each not in other.versions)
        images = {(each.repository, each.tag, each.digest): each for each in self.images}
        for image in other.images:
            key = (image.repository, image.tag, image.digest)
            images[key] = images[key].merge(image) if key in images else image
        configurations = _union(self.configurations, other.configurations)
        return MirrorRecord((*earlier, *other.versions), configurations, tuple(images.values()))

    def include(self, other: MirrorRecord) -> MirrorRecord:
        """Return the images of both like `merge`, but this record itself if it has what ``other`` has."""
        merged = self.merge(other)
        is_known = set(self.versions).issuperset(other.versions)
        return self if is_known and replace(merged, versions=self.versions) == self else merged

    def active(self, current: str) -> tuple[str, ...]:
        """Return the versions that are in use while the catalog's tag names the digest ``current``.

        These are the current one and those whose mirror may not be complete; all if the current one is unknown.
        """
        return self.versions[self.versions.index(current) :] if current in self.versions else self.versions

    def without(self, versions: Collection[str], deleted: Collection[ManifestName]) -> MirrorRecord:
        """Return the record without some versions, and without images that no version needs.

        Images that were put by the mirror and are not ``deleted`` remain, because others may need them: the record is
        then what says who put them there.
        """
        images = []
        for image in self.images:
            needed = tuple(each for each in image.versions if each not in versions)
            is_left = image.put and (image.repository, image.digest) not in deleted
            if needed or is_left:
                images.append(replace(image, versions=needed))
        left = tuple(each for each in self.versions if each not in versions)
        return MirrorRecord(left, self.configurations if left else (), tuple(images))

    def dump(self) -> bytes:
        """Return the content of the layer; equal records give equal bytes."""
        positions = {version: at for at, version in enumerate(self.versions)}
        images = sorted(self.images, key=lambda each: (each.repository, each.tag, each.digest))
        content = {"versions": self.versions, "configurations": sorted(self.configurations)}
        return dump_json({"version": _VERSION, **content, "images": [each.to_json(positions) for each in images]})

    @classmethod
    def parse(cls, raw: bytes, path: str) -> MirrorRecord:
        """Parse the content of a layer.

        Raises:
            InvalidImage: It is malformed.
            UnsupportedImage: A later version of the format.
        """
        fields = Fields.from_json(raw, path, limit=_MAX_SIZE)
        keys = ("version", "versions", "configurations", "images")
        if fields.integer("version") != _VERSION:
            raise UnsupportedImage(f"{path}: unsupported version {fields.integer('version')}", hint="update opmkit")
        fields.require_only(*keys)
        for key in keys:
            if fields.get(key) is None:
                raise invalid_field(f"{path}.{key}", "a list", None)
        versions = fields.strings("versions")
        images = (
            RecordedImage.from_json(value, name, versions) for name, value in fields.items("images", limit=_MAX_IMAGES)
        )
        return cls(versions, fields.strings("configurations"), tuple(images))


class NamedRecord(Struct, frozen=True):
    """A record with the repository that it is in and its subject."""

    repository: str
    subject: str
    record: MirrorRecord

    @property
    def is_list(self) -> bool:
        """Whether the subject is a list of images."""
        return self.subject.startswith(_LIST)


def catalog_subject(tag: str) -> str:
    """Return the subject for a catalog by its tag."""
    return f"{_CATALOG}{tag}"


def list_subject(configuration: str) -> str:
    """Return the subject for the images of a configuration that are not those of its catalogs."""
    return f"{_LIST}{configuration}"


def record_tag(subject: str) -> str:
    """Return the tag of the record of a subject."""
    return f"{RECORD_TAG}-{sha256_digest(subject.encode()).removeprefix('sha256:')[:16]}"


def is_record_tag(tag: str) -> bool:
    """Return whether a tag is reserved for records."""
    return _RECORD_TAG.fullmatch(tag) is not None


def read_record(repository: ImageSource, subject: str) -> MirrorRecord:
    """Return the record of a subject, which is empty if it does not exist; see `parse_record`.

    A denied access also counts as none: without a record, nothing is moved or deleted.
    """
    tag = record_tag(subject)
    try:
        manifest = repository.get_manifest(tag)
    except (NotFound, AuthenticationFailed):  # some registries deny access to repositories that do not exist
        return MirrorRecord()
    return parse_record(repository, tag, manifest).get(subject, MirrorRecord())


def read_records(repository: ImageSource) -> dict[str, MirrorRecord]:
    """Return all records in a repository by their subjects; see `parse_record`.

    Raises:
        NotFound: The registry lists a record, but does not have it.
    """
    try:
        tags = list(filter(is_record_tag, repository.tags()))
    except (NotFound, AuthenticationFailed):
        return {}
    found: dict[str, MirrorRecord] = {}
    for tag in tags:
        found.update(parse_record(repository, tag, repository.get_manifest(tag)))
    return found


def parse_record(repository: ImageSource, tag: str, manifest: Manifest | IndexManifest) -> dict[str, MirrorRecord]:
    """Return the record in an artifact by its subject, nothing for an artifact without one.

    Raises:
        InvalidImage, UnsupportedImage: It is something else, of a later version, or under the tag of another subject.
        ImageToolsError: It cannot be read.
    """
    return {subject: _read_layer(repository, layer) for subject, layer in _layers(tag, manifest).items()}


def update_record(
    repository: Repository,
    subject: str,
    change: Callable[[MirrorRecord], MirrorRecord | None],
    *,
    is_known: bool = False,
) -> str:
    """Change the record of a subject, which others may change at the same time; return the digest of the artifact.

    The artifact remains without a record, because a repository without a tag cannot be told from one whose tags the
    registry fails to list.

    Args:
        repository: The repository.
        subject: The subject.
        change: Returns the new record, or None to remove it.
        is_known: Whether the subject is known to have a record, so that an answer without it is wrong.

    Raises:
        TagMoved: Other writers keep changing it.
        InvalidImage, UnsupportedImage: It is something else, or of a later version.
        RegistryUnavailable: The registry both has the record and lacks it.
        ImageToolsError: It cannot be read or written.
    """
    tag = record_tag(subject)

    def apply(current: Manifest | IndexManifest | None) -> Manifest | IndexManifest:
        if current is None and (is_known or _lists(repository, tag)):
            message = f"tag {tag}: the registry lists this record of mirrors, but answers that it does not exist"
            raise RegistryUnavailable(message, hint="check the registry, and run the command again")
        layers = _layers(tag, current) if current else {}
        record = _read_layer(repository, layers[subject]) if subject in layers else MirrorRecord()
        changed = change(record)
        if current and changed == record and subject in layers:
            return current
        _put(repository, _EMPTY, media_types.OCI_EMPTY)
        if changed is None:
            return _build(_EMPTY_DESCRIPTOR)
        return _build(_put(repository, changed.dump(), RECORD_TYPE, {_SUBJECT: subject}))

    try:
        return update_tag(repository, tag, apply).digest
    except AuthenticationFailed:
        if is_known:
            raise
        # Some registries deny access to repositories that do not exist. A manifest without a tag creates the
        # repository, and leaves a record that exists as it is.
        _put(repository, _EMPTY, media_types.OCI_EMPTY)
        repository.put_manifest(_build(_EMPTY_DESCRIPTOR))
        return update_tag(repository, tag, apply).digest


def mark_repository(repository: Repository) -> None:
    """Store an artifact without a record in a repository from which all images are about to be deleted.

    Raises:
        TagMoved: The repository has it, or something else under its tag.
    """
    _put(repository, _EMPTY, media_types.OCI_EMPTY)
    repository.put_manifest(_build(_EMPTY_DESCRIPTOR), RECORD_TAG, replacing="")


def _lists(repository: Repository, tag: str) -> bool:
    try:
        return tag in repository.tags()
    except NotFound:
        return False


def _build(layer: Descriptor) -> Manifest:
    return Manifest.build(_EMPTY_DESCRIPTOR, [layer], artifact_type=RECORD_TYPE)


def _layers(tag: str, manifest: Manifest | IndexManifest) -> dict[str, Descriptor]:
    if not isinstance(manifest, Manifest) or manifest.artifact_type != RECORD_TYPE:
        raise InvalidImage(f"tag {tag}: not a record of a mirror", hint="delete the tag, or rename it")
    found = {}
    for layer in manifest.layers:
        subject = layer.annotations.get(_SUBJECT, "")
        if layer.media_type not in (RECORD_TYPE, media_types.OCI_EMPTY):
            message = f"tag {tag}: unsupported layer of the media type {layer.media_type!r:.80}"
            raise UnsupportedImage(message, hint="update opmkit")
        if layer.media_type == RECORD_TYPE:
            if not subject.startswith((_CATALOG, _LIST)) or tag != record_tag(subject) or subject in found:
                message = f"tag {tag}: unsupported or repeated subject {subject!r:.80} of a layer"
                raise UnsupportedImage(message, hint="update opmkit")
            found[subject] = layer
    return found


def _read_layer(repository: ImageSource, layer: Descriptor) -> MirrorRecord:
    path = f"record {layer.annotations.get(_SUBJECT, '')}"
    if layer.size > _MAX_SIZE:
        raise InvalidImage(f"{path}: {layer.size} bytes exceed the limit of {_MAX_SIZE}")
    with prefix_errors(path), repository.open_blob(layer) as stream:
        return MirrorRecord.parse(stream.read(), path)


def _put(
    repository: Repository, content: bytes, media_type: str, annotations: Mapping[str, str] | None = None
) -> Descriptor:
    descriptor = Descriptor(media_type, sha256_digest(content), len(content), annotations=dict(annotations or {}))
    repository.put_blob(descriptor, partial(io.BytesIO, content))
    return descriptor


def _union(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))
