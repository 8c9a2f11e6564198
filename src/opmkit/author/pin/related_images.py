"""The section ``spec.relatedImages`` of a ClusterServiceVersion, which lists the images to mirror."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from opmkit.author.pin.image_use import ImageUse, Role
from opmkit.author.pin.object_images import RELATED_IMAGE_PREFIX
from opmkit.author.pin.related_images_mode import RelatedImagesMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opmkit.documents.json_value import JsonValue


@dataclass(frozen=True, slots=True)
class RelatedImage:
    """An entry of the section."""

    name: str
    image: str

    def as_dict(self) -> dict[str, JsonValue]:
        """Return the entry in JSON types."""
        return {"name": self.name, "image": self.image}


def missing_images(
    uses: Iterable[ImageUse], images: Mapping[str, str], mode: RelatedImagesMode
) -> tuple[RelatedImage, ...]:
    """Return the entries to add to the section, for images with a digest.

    An entry has the name of a container, the name of a ``RELATED_IMAGE_`` variable in lower case without the prefix, or
    ``REPOSITORY-DIGEST-annotation``. If another image has the name, the name of the deployment or a number is added.

    Args:
        uses: All images of the bundle.
        images: Their replacements.
        mode: Which entries to add.
    """
    uses = list(uses)
    listed = {_new_image(use, images): use.name for use in uses if use.role is Role.RELATED_IMAGE}
    if mode is RelatedImagesMode.KEEP or (mode is RelatedImagesMode.CREATE and listed):
        return ()
    entries: dict[str, str] = {}
    taken = {use.name: _new_image(use, images) for use in uses if use.role is Role.RELATED_IMAGE}
    others = [use for use in uses if use.role not in (Role.RELATED_IMAGE, Role.VALUE)]
    for use in sorted(others, key=lambda use: use.role is Role.ANNOTATION):
        image = _new_image(use, images)
        if "@" not in image or image in listed or (use.role is Role.ANNOTATION and image in entries.values()):
            continue
        name = next(name for name in _names(use, image) if taken.get(name, image) == image)
        taken[name] = entries[name] = image
    return tuple(RelatedImage(name, image) for name, image in entries.items())


def _new_image(use: ImageUse, images: Mapping[str, str]) -> str:
    return images.get(use.image, use.image)


def _names(use: ImageUse, image: str) -> Iterator[str]:
    """Yield names for an entry, the best one first."""
    name = use.name
    if use.role is Role.ENVIRONMENT:
        name = name.removeprefix(RELATED_IMAGE_PREFIX).lower()
    elif use.role is Role.ANNOTATION:
        repository, _, digest = image.rpartition("/")[2].partition("@")
        name = f"{repository.partition(':')[0]}-{digest.partition(':')[2] or 'latest'}-annotation"
    name = name or "image"
    yield name
    if use.owner:
        yield f"{use.owner}-{name}"
    yield from (f"{name}-{number}" for number in count(2))
