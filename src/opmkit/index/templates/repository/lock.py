"""Lock files: the digests of the image tags in templates.

A lock file is YAML with one line per image, sorted, so that versions of it are merged line by line.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from opmkit.core.files import disk_errors, read_limited, write_files
from opmkit.core.locks import locked_directory
from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.spec.descriptor import is_digest
from opmkit.index.errors import InvalidCatalog
from opmkit.index.templates.document import TemplateFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from opmkit.index.fbc.fields import FieldReader

VERSION = 1
MAX_LOCK = 64 << 20
"""Bytes of a lock file."""
_HEADER = "# Digests of the images in catalog templates, written by opmkit. Sorted, one line per image.\n"
_HINT = "Correct the line, or delete it to resolve the image again."
_CONFLICT = re.compile(rb"^(?:<{7}|={7}|>{7})(?: |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LockedImage:
    """The manifest that a tag named when it was resolved."""

    digest: str
    media_type: str


@dataclass(frozen=True, slots=True)
class ImageLock:
    """The content of a lock file: images by their references, as templates write them."""

    images: Mapping[str, LockedImage] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def read(cls, path: Path) -> ImageLock:
        """Read a lock file; one that does not exist is empty.

        Raises:
            InvalidCatalog: The file is invalid; the error lists all findings with their lines.
            DiskError: The file can't be read.
        """
        with disk_errors(path):
            if not path.exists():
                return cls()
            raw = read_limited(path, MAX_LOCK)
        conflict = _CONFLICT.search(raw)
        if conflict:
            line = raw.count(b"\n", 0, conflict.start()) + 1
            hint = "Keep the lines of both sides, and one line per image."
            raise InvalidCatalog(f"{path}:{line}: unresolved merge conflict", hint=hint)
        return cls(MappingProxyType(_parse(TemplateFile.open(path))))

    def encode(self) -> bytes:
        """Return the content of the file."""
        lines = [
            f'  {json.dumps(image)}: {{"digest": {json.dumps(locked.digest)}, '
            f'"mediaType": {json.dumps(locked.media_type)}}}\n'
            for image, locked in sorted(self.images.items())
        ]
        images = "".join(["images:\n", *lines] if lines else ["images: {}\n"])
        return f"{_HEADER}version: {VERSION}\n{images}".encode()


def update_lock(path: Path, changes: Mapping[str, LockedImage]) -> bool:
    """Change images in a lock file, and return whether the file changed; others, and those of other writers, remain.

    Raises:
        InvalidCatalog: The file has become invalid.
        DiskError: The file can't be written.
    """
    with disk_errors(path):
        path = path.resolve()  # a link to a lock file remains
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked_directory(path.parent):
            before = ImageLock.read(path)
            after = ImageLock({**before.images, **changes})
            if after == before:
                return False
            write_files(path.parent, {path.name: after.encode()})
            return True


def _parse(file: TemplateFile) -> dict[str, LockedImage]:
    if not file.documents:
        return {}
    reader = file.mapping(_HINT)
    file.check_fields(reader, "version", "images")
    if not file.findings and reader.any("version") != VERSION:
        file.report(("version",), f"unsupported version {reader.any('version')!r}", hint="Update opmkit.")
    images = reader.mapping("images")
    parsed = dict(_parse_images(file, images)) if images else {}
    file.raise_findings()
    return parsed


def _parse_images(file: TemplateFile, images: FieldReader) -> Iterator[tuple[str, LockedImage]]:
    for image in images.value:
        path = (*images.path, image)
        entry = images.mapping(image)
        if entry is None:
            if images.value[image] is None:
                file.report(path, f"image {image!r} has no digest", hint=_HINT)
            continue
        digest, media_type = entry.string("digest"), entry.string("mediaType")
        try:
            Reference.parse(image)
        except InvalidReference as error:
            file.report(path, f"invalid image: {error.message}", hint=_HINT)
        if not is_digest(digest):
            file.report(path, f"image {image!r} has the invalid digest {digest!r}", hint=_HINT)
        yield image, LockedImage(digest, media_type)
