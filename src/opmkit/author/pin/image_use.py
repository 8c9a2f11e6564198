"""Places in a document that name an image."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from opmkit.bundle.errors import BundleError
from opmkit.documents.field_path import format_path
from opmkit.documents.fields import describe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.documents.field_path import FieldPath
    from opmkit.documents.json_value import JsonValue


class Role(StrEnum):
    """The purpose of an image; the values are for messages."""

    CONTAINER = "container"
    INIT_CONTAINER = "init container"
    EPHEMERAL_CONTAINER = "ephemeral container"
    ENVIRONMENT = "environment variable"
    ANNOTATION = "annotation"
    RELATED_IMAGE = "related image"
    BUNDLE = "bundle image"
    VALUE = "value"
    """A string that equals an image of the same object, such as another variable."""


@dataclass(frozen=True, slots=True)
class ImageUse:
    """An image that a document names.

    Attributes:
        image: The image as it is written.
        role: The purpose of the image.
        name: The name of the container, variable, annotation or related image.
        path: The path of the string that contains the image.
        start: Offset of the image in the string.
        owner: The object that contains the container, "" if it has no name.
    """

    image: str
    role: Role
    name: str
    path: FieldPath
    start: int = 0
    owner: str = ""

    def __str__(self) -> str:
        """Return the purpose and the name."""
        return f"{self.role} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class EmbeddedFile:
    """A file with Kubernetes objects that is embedded in a string, in base64."""

    content: bytes
    path: FieldPath


@dataclass(frozen=True, slots=True)
class UnpinnableUse:
    """An image that a document refers to without naming it."""

    message: str
    path: FieldPath


Finding: TypeAlias = ImageUse | EmbeddedFile | UnpinnableUse
ImageFinder = Callable[["JsonValue"], Iterator[Finding]]
"""Finds the images in a document. It raises InvalidField for a field of the wrong type."""


class InvalidField(BundleError):
    """A field of a document has the wrong type."""

    def __init__(self, value: JsonValue, path: FieldPath, wanted: str) -> None:
        """Create an error for a value that is not ``wanted``, such as "a string"."""
        name = format_path(path) or "the document"
        quotes = " (put it in quotes)" if wanted == "a string" and isinstance(value, int | float) else ""
        super().__init__(f"{name} is {describe(value)}, not {wanted}", hint=f"write {name} as {wanted}{quotes}")
        self.path = path


def mapping(value: JsonValue, path: FieldPath) -> Mapping[str, JsonValue]:
    """Return a mapping, an empty one for null; raise InvalidField for another value."""
    if value is not None and not isinstance(value, dict):
        raise InvalidField(value, path, "a mapping")
    return value or {}


def items(value: JsonValue, path: FieldPath) -> list[JsonValue]:
    """Return a list, an empty one for null; raise InvalidField for another value."""
    if value is not None and not isinstance(value, list):
        raise InvalidField(value, path, "a list")
    return value or []


def members(value: JsonValue, path: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, JsonValue]]]:
    """Yield the mappings in a list with their paths; raise InvalidField for another value."""
    for number, item in enumerate(items(value, path)):
        yield (*path, number), mapping(item, (*path, number))


def text(value: JsonValue, path: FieldPath) -> str:
    """Return a string, "" for null; raise InvalidField for another value."""
    if value is not None and not isinstance(value, str):
        raise InvalidField(value, path, "a string")
    return value or ""


def use_at(
    value: Mapping[str, JsonValue], key: str, path: FieldPath, role: Role, name: str, owner: str = ""
) -> Iterator[ImageUse]:
    """Yield the image in a member of a mapping, if there is one; raise InvalidField if it is not a string."""
    whole = text(value.get(key), (*path, key))
    image = whole.strip()
    if image:
        yield ImageUse(image, role, name, (*path, key), whole.index(image), owner)
