"""Comparison of the images for all platforms of an image index, of which only one is read.

A cluster pulls the image for the platform of its nodes, so what was read of another one must hold for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.imagetools.errors import InvalidImage

if TYPE_CHECKING:
    from opmkit.imagetools.image import Image
    from opmkit.imagetools.layer import Limits


class ComparedContent(Struct, frozen=True):
    """The content in which the images for all platforms must be equal.

    Attributes:
        label_prefix: The start of the names of labels.
        directories: Returns the directories, by the labels of an image.
        limits: Limits for reading the directories.
    """

    label_prefix: str
    directories: Callable[[Mapping[str, str]], Sequence[str]]
    limits: Limits


TreeReader = Callable[["Image", Sequence[str], "Limits"], dict[str, bytes]]
"""Reads the files of an image at or below paths, within limits."""


def require_equal_content(images: Mapping[str, Image], content: ComparedContent, read_tree: TreeReader) -> None:
    """Raise InvalidImage unless all images, given by their names, have equal labels and files.

    Images with the same layers have the same files, so these are only read if layers differ.
    """
    (first_name, first), *others = images.items()
    first_labels, first_tree = _labels(first, content), None
    compared = {_layers(first)}
    for name, image in others:
        labels = _labels(image, content)
        if differing := _first_difference(first_labels, labels):
            raise _differs(first_name, name, f"the label {differing}")
        if _layers(image) in compared:
            continue
        compared.add(_layers(image))
        directories = content.directories(labels)
        if first_tree is None:
            first_tree = read_tree(first, directories, content.limits)
        if differing := _first_difference(first_tree, read_tree(image, directories, content.limits)):
            raise _differs(first_name, name, differing)


def _layers(image: Image) -> tuple[tuple[str, str], ...]:
    """Return what determines the files of an image; the media type is how a runtime unpacks a layer."""
    return tuple((layer.media_type, layer.digest) for layer in image.manifest.layers)


def _labels(image: Image, content: ComparedContent) -> dict[str, str]:
    return {name: value for name, value in image.labels.items() if name.startswith(content.label_prefix)}


def _first_difference(left: Mapping[str, str | bytes], right: Mapping[str, str | bytes]) -> str:
    """Return the first name whose values differ, or ""."""
    return min((name for name in left.keys() | right.keys() if left.get(name) != right.get(name)), default="")


def _differs(first: str, second: str, difference: str) -> InvalidImage:
    return InvalidImage(
        f"{first} and {second} differ in {difference}: clusters would get another content than the one that is read",
        hint="build the image for all platforms from the same files, or for one platform only",
    )
