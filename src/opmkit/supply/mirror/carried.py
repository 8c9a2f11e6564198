"""Record of the content that was carried to a target in archives, so that later archives omit it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.core.files import disk_errors, write_files
from opmkit.core.locks import locked_directory
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.spec import check_digest
from opmkit.imagetools.spec.fields import Fields, dump_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_RECORD_SIZE = 512 << 20
"""Bytes of a record, which has about 120 for a blob."""


@dataclass(frozen=True, slots=True)
class CarriedContent:
    """Images and blobs that a target has.

    Attributes:
        images: The digests of images by their names, ``quay.io/org/name:tag``.
        blobs: The name of a source repository in which the target has a blob, by the digest of the blob.
    """

    images: Mapping[str, str] = field(default_factory=dict)
    blobs: Mapping[str, str] = field(default_factory=dict)

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
            path.parent.mkdir(parents=True, exist_ok=True)
        with locked_directory(path.parent):
            before = CarriedContent.read(path)
            record = {"images": {**before.images, **self.images}, "blobs": {**self.blobs, **before.blobs}}
            write_files(path.parent, {path.name: dump_json(record)})
