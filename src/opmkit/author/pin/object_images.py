"""Find the images in Kubernetes objects: the places that operator-manifest and OSBS pin, and pods of other objects.

See https://github.com/containerbuildsystem/operator-manifest#pull-specifications.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from opmkit.bundle.errors import BundleError
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND
from opmkit.documents.fields import describe, format_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from opmkit.documents.fields import FieldPath
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


class ImageField(Struct, frozen=True):
    """An image that a document names.

    Attributes:
        image: The image as it is written.
        role: The purpose of the image.
        name: The name of the container, variable, annotation or related image.
        path: The path of the string that contains the image.
        start: Offset of the image in the string.
        owner: The object that contains the container, or "" if it has no name.
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


class EmbeddedFile(Struct, frozen=True):
    """A file with Kubernetes objects that is embedded in a string, in base64."""

    content: bytes
    path: FieldPath


class UnpinnableUse(Struct, frozen=True):
    """An image that a document refers to without naming it."""

    message: str
    path: FieldPath


Finding: TypeAlias = ImageField | EmbeddedFile | UnpinnableUse
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
    """Return a string, or "" for null; raise InvalidField for another value."""
    if value is not None and not isinstance(value, str):
        raise InvalidField(value, path, "a string")
    return value or ""


def use_at(
    value: Mapping[str, JsonValue], key: str, path: FieldPath, role: Role, name: str, owner: str = ""
) -> Iterator[ImageField]:
    """Yield the image in a member of a mapping, if there is one; raise InvalidField if it is not a string."""
    whole = text(value.get(key), (*path, key))
    image = whole.strip()
    if image:
        yield ImageField(image, role, name, (*path, key), whole.index(image), owner)


RELATED_IMAGE_PREFIX = "RELATED_IMAGE_"
"""Prefix of environment variables with images that an operator deploys."""
RELATED_IMAGES = ("spec", "relatedImages")
_CONTAINER_IMAGE = "containerImage"
_TEMPLATE = ("spec", "template", "spec")
_POD_PATHS: dict[str, FieldPath] = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "CronJob": ("spec", "jobTemplate", *_TEMPLATE),
    **dict.fromkeys(
        ("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "DeploymentConfig"),
        _TEMPLATE,
    ),
}
_CONTAINERS = {
    "containers": Role.CONTAINER,
    "initContainers": Role.INIT_CONTAINER,
    "ephemeralContainers": Role.EPHEMERAL_CONTAINER,
}
_STRUCTURED = ("{", "[")
"""Beginnings of annotations with embedded objects, such as alm-examples, whose images belong to their readers."""
_MAX_REFERENCE = 640
"""Maximum length of a reference in text; a host, a repository and a tag have 255, 255 and 128 characters."""
_CANDIDATE = re.compile(r"[a-zA-Z0-9/\-._@:]+")
_WORD = r"[a-zA-Z0-9](?:[a-zA-Z0-9\-._]*[a-zA-Z0-9])?"
_FULL_REFERENCE = re.compile(
    rf"[a-zA-Z0-9][a-zA-Z0-9\-._]*\.[a-zA-Z0-9\-._]*[a-zA-Z0-9](?::\d+)?/(?:{_WORD}/)*{_WORD}"
    rf"(?::{_WORD}(?:@sha256:[a-f0-9]{{64}})?|@sha256:[a-f0-9]{{64}})"
)


def find_object_images(value: JsonValue, *, in_json: bool = False) -> Iterator[Finding]:
    """Yield the images in a Kubernetes object, or in the items of a list of objects.

    Args:
        value: The object.
        in_json: Whether to include those in annotations that contain JSON, which can be placeholders.

    Raises:
        InvalidField: A field has the wrong type.
    """
    yield from _find(value, (), in_json=in_json)


def _find(value: JsonValue, path: FieldPath, *, in_json: bool) -> Iterator[Finding]:
    manifest = mapping(value, path)
    kind = manifest.get("kind")
    if kind == "List":
        for number, item in enumerate(items(manifest.get("items"), (*path, "items"))):
            yield from _find(item, (*path, "items", number), in_json=in_json)
        return
    found: list[Finding] = []
    if kind == CSV_KIND:
        found += _find_in_csv(manifest, path)
    elif isinstance(kind, str) and kind in _POD_PATHS:
        metadata = mapping(manifest.get("metadata"), (*path, "metadata"))
        owner = text(metadata.get("name"), (*path, "metadata", "name"))
        found += _find_in_pod(*_descend(manifest, path, _POD_PATHS[kind]), owner)
    maps = _annotation_maps(value, path, recursive=kind != CRD_KIND)
    annotated = [use for found_at, found in maps for use in find_in_annotations(found, found_at, in_json=in_json)]
    yield from found
    if found:
        uses = [use for use in (*found, *annotated) if isinstance(use, ImageField)]
        yield from _find_equal(value, path, {use.image for use in uses if "/" in use.image}, {use.path for use in uses})
    yield from annotated


def _find_equal(value: JsonValue, path: FieldPath, images: Set[str], known: Set[FieldPath]) -> Iterator[ImageField]:
    """Yield the strings outside of annotations that equal one of the images and are not ``known``.

    In containers, the image can be a part of a string, such as the argument ``--image=IMAGE``. Images without a slash
    are omitted, since names of containers can equal them.
    """
    if isinstance(value, str):
        in_container = not _CONTAINERS.keys().isdisjoint(path)
        for image, start in _words(value) if in_container else [(value, 0)]:
            if image in images and path not in known:
                yield ImageField(image, Role.VALUE, format_path(path), path, start)
    elif isinstance(value, dict):
        for key, member in value.items():
            if (*path[-1:], key) != ("metadata", "annotations"):
                yield from _find_equal(member, (*path, key), images, known)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _find_equal(item, (*path, number), images, known)


def _find_in_csv(csv: Mapping[str, JsonValue], path: FieldPath) -> Iterator[Finding]:
    spec = mapping(csv.get("spec"), (*path, "spec"))
    for entry_path, entry in members(spec.get("relatedImages"), (*path, *RELATED_IMAGES)):
        name = text(entry.get("name"), (*entry_path, "name"))
        yield from use_at(entry, "image", entry_path, Role.RELATED_IMAGE, name)
    strategy, strategy_path = _descend(spec, (*path, "spec"), ("install", "spec"))
    for deployment_path, deployment in members(strategy.get("deployments"), (*strategy_path, "deployments")):
        owner = text(deployment.get("name"), (*deployment_path, "name"))
        yield from _find_in_pod(*_descend(deployment, deployment_path, _TEMPLATE), owner)


def _descend(
    value: Mapping[str, JsonValue], path: FieldPath, steps: FieldPath
) -> tuple[Mapping[str, JsonValue], FieldPath]:
    """Return the mapping below another one, empty if it does not exist, with its path."""
    for step in steps:
        path = (*path, step)
        value = mapping(value.get(str(step)), path)
    return value, path


def _find_in_pod(pod: Mapping[str, JsonValue], path: FieldPath, owner: str) -> Iterator[Finding]:
    for key, role in _CONTAINERS.items():
        for container_path, container in members(pod.get(key), (*path, key)):
            name = text(container.get("name"), (*container_path, "name"))
            yield from use_at(container, "image", container_path, role, name, owner)
            for variable_path, variable in members(container.get("env"), (*container_path, "env")):
                yield from _find_in_variable(variable, variable_path, owner)


def _find_in_variable(variable: Mapping[str, JsonValue], path: FieldPath, owner: str) -> Iterator[Finding]:
    name = text(variable.get("name"), (*path, "name"))
    if name.startswith(RELATED_IMAGE_PREFIX):
        if variable.get("valueFrom") is not None:
            yield UnpinnableUse(f"{name} takes its value from elsewhere: set the image as value to pin it", path)
        yield from use_at(variable, "value", path, Role.ENVIRONMENT, name, owner)


def _annotation_maps(value: JsonValue, path: FieldPath, *, recursive: bool) -> Iterator[tuple[FieldPath, JsonValue]]:
    """Yield the annotations of an object and, with ``recursive``, of the templates in it, with their paths."""
    if isinstance(value, dict):
        metadata = value.get("metadata")
        if isinstance(metadata, dict):
            yield (*path, "metadata", "annotations"), metadata.get("annotations")
        for key, member in value.items() if recursive else ():
            if key != "metadata":
                yield from _annotation_maps(member, (*path, key), recursive=True)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _annotation_maps(item, (*path, number), recursive=True)


def find_in_annotations(annotations: JsonValue, path: FieldPath, *, in_json: bool = False) -> Iterator[ImageField]:
    """Yield the image in the annotation ``containerImage``, and references with host and tag or digest in others.

    Annotations that contain JSON are skipped unless ``in_json``: ``alm-examples`` and others are input of other
    programs.
    """
    if not isinstance(annotations, dict):
        return
    for key, value in annotations.items():
        if not isinstance(value, str) or (not in_json and value.lstrip().startswith(_STRUCTURED)):
            continue
        if key == _CONTAINER_IMAGE:
            yield from use_at(annotations, key, path, Role.ANNOTATION, key)
            continue
        for image, start in _words(value):
            if len(image) <= _MAX_REFERENCE and _FULL_REFERENCE.fullmatch(image):
                yield ImageField(image, Role.ANNOTATION, key, (*path, key), start)


def _words(value: str) -> Iterator[tuple[str, int]]:
    """Yield the parts of a text that could be references, with their offsets."""
    for match in _CANDIDATE.finditer(value):
        word = match[0].strip("/-._@:")
        if word:
            yield word, match.start() + match[0].index(word)
