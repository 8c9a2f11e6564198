"""Records of what mirrors put into a registry: an artifact in each repository with a catalog, a layer for each subject.

A subject is a catalog in the repository by its tag, or a list of other images of an image set. The record is written
before anything is copied, so that it covers what an interrupted mirror has put there.
"""

from __future__ import annotations

import io
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
RECORD_TYPE = "application/vnd.opmkit.mirror.record.v1+json"
_SUBJECT = "org.opencontainers.image.title"
_SUBJECTS = ("catalog:", "images:")
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


def catalog_subject(tag: str) -> str:
    """Return the subject for a catalog by its tag."""
    return f"catalog:{tag}"


def list_subject(configuration: str) -> str:
    """Return the subject for the images of a configuration that are not those of its catalogs."""
    return f"images:{configuration}"


def read_records(repository: ImageSource) -> dict[str, MirrorRecord]:
    """Return the records in a repository by their subjects, none if it has none; see `parse_records`.

    A denied access also counts as none: without a record, nothing is moved or deleted.
    """
    try:
        manifest = repository.get_manifest(RECORD_TAG)
    except (NotFound, AuthenticationFailed):  # some registries deny access to repositories that do not exist
        return {}
    return parse_records(repository, manifest)


def parse_records(repository: ImageSource, manifest: Manifest | IndexManifest) -> dict[str, MirrorRecord]:
    """Return the records in an artifact by their subjects.

    Raises:
        InvalidImage, UnsupportedImage: It is something else, or of a later version.
        ImageToolsError: It cannot be read.
    """
    return {subject: _read_layer(repository, layer) for subject, layer in _layers(manifest).items()}


def update_record(
    repository: Repository,
    subject: str,
    change: Callable[[MirrorRecord], MirrorRecord | None],
    *,
    is_known: bool = False,
) -> str:
    """Change the record of a subject, which others may change at the same time; return the digest of the artifact.

    The artifact remains without any record, because a repository without a tag cannot be told from one whose tags
    the registry fails to list.

    Args:
        repository: The repository.
        subject: The subject.
        change: Returns the new record, or None to remove it.
        is_known: Whether the repository is known to have records, so that an answer without them is wrong.

    Raises:
        TagMoved: Other writers keep changing it.
        InvalidImage, UnsupportedImage: It is something else, or of a later version.
        RegistryUnavailable: The registry both has the records and lacks them.
        ImageToolsError: It cannot be read or written.
    """

    def apply(current: Manifest | IndexManifest | None) -> Manifest | IndexManifest:
        if current is None and (is_known or _lists_records(repository)):
            message = f"tag {RECORD_TAG}: the registry lists this record of mirrors, but answers that it does not exist"
            raise RegistryUnavailable(message, hint="check the registry, and run the command again")
        layers = _layers(current) if current else {}
        record = _read_layer(repository, layers[subject]) if subject in layers else MirrorRecord()
        changed = change(record)
        if current and changed == record and subject in layers:
            return current
        if changed is None:
            layers.pop(subject, None)
        else:
            layers[subject] = _put(repository, changed.dump(), RECORD_TYPE, {_SUBJECT: subject})
        _put(repository, _EMPTY, media_types.OCI_EMPTY)
        return _build(layers)

    try:
        return update_tag(repository, RECORD_TAG, apply).digest
    except AuthenticationFailed:
        if is_known:
            raise
        # Some registries deny access to repositories that do not exist. A manifest without a tag creates the
        # repository, and leaves a record that exists as it is.
        _put(repository, _EMPTY, media_types.OCI_EMPTY)
        repository.put_manifest(_build({}))
        return update_tag(repository, RECORD_TAG, apply).digest


def mark_repository(repository: Repository) -> None:
    """Store an artifact without records in a repository from which all images are about to be deleted.

    Raises:
        TagMoved: The repository has records.
    """
    _put(repository, _EMPTY, media_types.OCI_EMPTY)
    repository.put_manifest(_build({}), RECORD_TAG, replacing="")


def _lists_records(repository: Repository) -> bool:
    try:
        return RECORD_TAG in repository.tags()
    except NotFound:
        return False


def _build(layers: Mapping[str, Descriptor]) -> Manifest:
    listed = [layer for _, layer in sorted(layers.items())] or [_EMPTY_DESCRIPTOR]
    return Manifest.build(_EMPTY_DESCRIPTOR, listed, artifact_type=RECORD_TYPE)


def _layers(manifest: Manifest | IndexManifest) -> dict[str, Descriptor]:
    if not isinstance(manifest, Manifest) or manifest.artifact_type != RECORD_TYPE:
        hint = "delete the tag, or rename it"
        raise InvalidImage(f"tag {RECORD_TAG}: not a record of a mirror", hint=hint)
    found = {}
    for layer in manifest.layers:
        subject = layer.annotations.get(_SUBJECT, "")
        if layer.media_type not in (RECORD_TYPE, media_types.OCI_EMPTY):
            message = f"tag {RECORD_TAG}: unsupported layer of the media type {layer.media_type!r:.80}"
            raise UnsupportedImage(message, hint="update opmkit")
        if layer.media_type == RECORD_TYPE:
            if not subject.startswith(_SUBJECTS) or subject in found:
                message = f"tag {RECORD_TAG}: unsupported or repeated subject {subject!r:.80} of a layer"
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
