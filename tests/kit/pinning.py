"""Pin images with made-up digests, without a registry."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from opmkit.author.pin.object_images import find_object_images
from opmkit.author.pin.pin import PinResult, RelatedImagesMode, pin_files
from opmkit.author.pin.pinnable_file import PinnableFile
from opmkit.author.pin.resolve import PinOptions, resolve_images

if TYPE_CHECKING:
    from opmkit.author.pin.object_images import ImageFinder
    from opmkit.imagetools.reference import Reference


def fake_digest(reference: Reference) -> str:
    """Return a digest that depends on the reference only."""
    return f"sha256:{sha256(str(reference).encode()).hexdigest()}"


def pinned_name(image: str, reference: str = "") -> str:
    """Return an image with a tag after it was pinned; ``reference`` is its canonical name, by default itself."""
    digest = sha256((reference or image).encode()).hexdigest()
    return f"{image.rpartition(':')[0]}@sha256:{digest}"


def pin(
    text: str | bytes,
    *,
    name: str = "csv.yaml",
    options: PinOptions | None = None,
    related_images: RelatedImagesMode = RelatedImagesMode.KEEP,
    find: ImageFinder = find_object_images,
) -> PinResult:
    """Pin the images of one file."""
    file = PinnableFile.read(name, text.encode() if isinstance(text, str) else text, find)
    images = resolve_images(file.uses(), options or PinOptions(), fake_digest)
    return pin_files([file], images, related_images)


def pin_text(text: str, related_images: RelatedImagesMode = RelatedImagesMode.KEEP) -> str:
    """Return the text of a file with pinned images."""
    result = pin(text, related_images=related_images)
    return result.files["csv.yaml"].decode() if result.files else text
