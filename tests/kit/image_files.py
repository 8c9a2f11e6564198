"""Files of images as their layers contain them."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opmkit.imagetools.image import Image


@dataclass(frozen=True)
class ImageFile:
    """A regular file with the bits of its permissions, or the target of a symbolic link."""

    content: bytes
    mode: int
    link: str = ""


def image_files(image: Image) -> dict[str, ImageFile]:
    """Return the files of an image without whiteouts, by path."""
    files: dict[str, ImageFile] = {}
    for _, open_layer in image.layers:
        with open_layer() as blob, tarfile.open(fileobj=blob, mode="r|*") as archive:
            for member in archive:
                path = member.name.removeprefix("./").rstrip("/")
                if member.isreg():
                    content = archive.extractfile(member)
                    assert content is not None
                    files[path] = ImageFile(content.read(), member.mode & 0o7777)
                elif member.issym():
                    files[path] = ImageFile(b"", 0, member.linkname)
                elif member.islnk():
                    files[path] = files[member.linkname.removeprefix("./")]
                else:
                    assert member.isdir(), path
    return files
