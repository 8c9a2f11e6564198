"""The descriptions of mirrors in directories and archives, and of the content that archives carried to a target."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from opmkit.core.files import disk_errors, make_output_directory, write_files
from opmkit.core.locks import locked_directory
from opmkit.imagetools.errors import InvalidImage, InvalidReference, UnsupportedImage
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.spec import Platform, check_digest
from opmkit.imagetools.spec.fields import Fields, dump_json, invalid_field
from opmkit.supply.mirror.record import RecordSubject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


DESCRIPTION_FILE = "mirror.json"
MAX_DESCRIPTION_SIZE = 128 << 20
"""Bytes of a description, which has about 300 for an image."""
MAX_IMAGES = 1 << 19
VERSION = 1
_MAX_USERS = 20
"""What needs an image, in a description."""


class MirroredImage(Struct, frozen=True):
    """An image of a mirror.

    Attributes:
        name: Its source with its tag in the target, ``quay.io/org/name:tag``.
        digest: The digest of its manifest or index.
        platforms: The platforms that were selected of an index; none if it is complete.
        is_catalog: Whether it is a catalog, which is copied after the images that it refers to.
        needed_by: Descriptions of what needs the image.
        subjects: The subjects of the records that list the image in a registry.
    """

    name: str
    digest: str
    platforms: tuple[Platform, ...] = ()
    is_catalog: bool = False
    needed_by: tuple[str, ...] = ()
    subjects: tuple[RecordSubject, ...] = ()

    @property
    def reference(self) -> Reference:
        """The source by digest, with the tag in the target; raises InvalidReference."""
        parsed = Reference.parse(self.name)
        return Reference(parsed.registry, parsed.repository, parsed.tag, self.digest)

    def to_json(self, subjects: Mapping[RecordSubject, int]) -> dict[str, object]:
        """Return the JSON object, without the fields that are empty; subjects are positions in a list."""
        optional = {
            "platforms": list(map(str, self.platforms)),
            "catalog": self.is_catalog,
            "neededBy": list(self.needed_by[:_MAX_USERS]),
            "records": [subjects[each] for each in self.subjects],
        }
        return {"name": self.name, "digest": self.digest} | {key: value for key, value in optional.items() if value}

    @classmethod
    def from_json(cls, value: object, path: str, subjects: Sequence[RecordSubject] = ()) -> MirroredImage:
        """Parse and validate a JSON object; raises InvalidImage, and InvalidReference for a name or platform."""
        fields = Fields.from_value(value, path)
        with _located_errors(path):
            image = cls(
                fields.string("name"),
                check_digest(fields.string("digest")),
                tuple(map(Platform.parse, fields.strings("platforms"))),
                fields.boolean("catalog"),
                fields.strings("neededBy"),
                tuple(subjects[at] for at in fields.positions("records", len(subjects))),
            )
            if image.reference.tag is None:
                raise invalid_field(f"{path}.name", "a name with a tag", image.name)
        return image


class MirrorDescription(Struct, frozen=True):
    """The images of a mirror in a directory or archive.

    Attributes:
        images: The images by name.
        omitted: The blobs that an incremental archive does not contain, because earlier ones do, with the name of a
            source repository in which the target has the blob.
    """

    images: Mapping[str, MirroredImage] = {}
    omitted: Mapping[str, str] = {}

    def merge(self, other: MirrorDescription) -> MirrorDescription:
        """Return the images of both; those of ``other`` replace others of the same name."""
        images = dict(self.images)
        for name, image in other.images.items():
            known = images.get(name)
            before = known.subjects if known and known.digest == image.digest else ()
            images[name] = replace(image, subjects=tuple(dict.fromkeys((*before, *image.subjects))))
        return MirrorDescription(images, {**self.omitted, **other.omitted})

    def dump(self) -> bytes:
        """Return the content of the file; equal descriptions give equal bytes."""
        listed = [image for _, image in sorted(self.images.items())]
        positions = {
            each: at for at, each in enumerate(dict.fromkeys(each for image in listed for each in image.subjects))
        }
        optional = {"omitted": dict(self.omitted), "records": list(map(msgspec.to_builtins, positions))}
        content = {"version": VERSION, "images": [image.to_json(positions) for image in listed]}
        return dump_json(content | {key: value for key, value in optional.items() if value})

    @classmethod
    def parse(cls, raw: bytes, location: str) -> MirrorDescription:
        """Parse the content of the file ``location``.

        Raises:
            InvalidImage, InvalidReference: It is malformed.
            LimitExceeded: It is too long.
            UnsupportedImage: A later version of the format.
        """
        fields = Fields.from_json(raw, location, limit=MAX_DESCRIPTION_SIZE)
        if fields.integer("version") != VERSION:
            raise UnsupportedImage(f"{location}: unsupported version {fields.integer('version')}", hint="update opmkit")
        subjects = [RecordSubject.from_json(value, path) for path, value in fields.items("records", limit=MAX_IMAGES)]
        parsed = (
            MirroredImage.from_json(value, path, subjects) for path, value in fields.items("images", limit=MAX_IMAGES)
        )
        images = {image.name: image for image in parsed}
        omitted = fields.string_map("omitted")
        with _located_errors(location):
            for digest, name in omitted.items():
                check_digest(digest)
                Reference.parse(name)
        return cls(images, omitted)


MAX_RECORD_SIZE = 512 << 20
"""Bytes of a record, which has about 120 for a blob."""


class CarriedContent(Struct, frozen=True):
    """Images and blobs that a target has.

    Attributes:
        images: The digests of images by their names, ``quay.io/org/name:tag``.
        blobs: The name of a source repository in which the target has a blob, by the digest of the blob.
    """

    images: Mapping[str, str] = {}
    blobs: Mapping[str, str] = {}

    @classmethod
    def read(cls, path: Path) -> CarriedContent:
        """Read a record, which is empty if the file does not exist.

        Raises:
            DiskError: The file cannot be read.
            InvalidImage, InvalidReference, LimitExceeded: It is not a record.
        """
        with disk_errors(path):
            try:
                with path.open("rb") as file:
                    raw = file.read(MAX_RECORD_SIZE + 1)
            except FileNotFoundError:
                return cls()
        fields = Fields.from_json(raw, str(path), limit=MAX_RECORD_SIZE)
        images, blobs = fields.string_map("images"), fields.string_map("blobs")
        with _located_errors(str(path)):
            for digest in (*images.values(), *blobs):
                check_digest(digest)
            for name in {*images, *blobs.values()}:
                Reference.parse(name)
        return cls(images, blobs)

    def add_to(self, path: Path) -> None:
        """Add the content to a record, which may have changed since it was read, and write it atomically.

        Raises:
            DiskError: The file cannot be read or written.
            InvalidImage, InvalidReference, LimitExceeded: It is not a record.
        """
        with disk_errors(path.parent):
            make_output_directory(path.parent)
        with locked_directory(path.parent):
            before = CarriedContent.read(path)
            record = {"images": {**before.images, **self.images}, "blobs": {**self.blobs, **before.blobs}}
            write_files(path.parent, {path.name: dump_json(record)})


@contextmanager
def _located_errors(path: str) -> Iterator[None]:
    """Prefix errors about digests and names with ``path``, unless they start with it."""
    try:
        yield
    except (InvalidImage, InvalidReference) as error:
        if error.message.startswith(path):
            raise
        raise type(error)(f"{path}: {error.message}", hint=error.hint) from error
