"""Pin the images of files: plan all changes, then return them."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import yaml
from msgspec import Struct

from opmkit.author.pin.object_images import RELATED_IMAGE_PREFIX, RELATED_IMAGES, ImageField, Role, find_object_images
from opmkit.author.pin.pinnable_file import PinnableFile
from opmkit.documents.source_nodes import find_node
from opmkit.documents.text_edits import fill_collection, insert_items, insert_member

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opmkit.author.pin.pinnable_file import LocatedUse, PinnableDocument
    from opmkit.documents.json_value import JsonValue
    from opmkit.documents.text_edits import TextEdit


class RelatedImagesMode(StrEnum):
    """A change of ``spec.relatedImages``."""

    COMPLETE = "complete"
    """Create the section, or add the images that it lacks."""
    CREATE = "create"
    """Create the section unless there is one."""
    KEEP = "keep"
    """Pin its images only."""


MANIFEST_EXTENSIONS = (".yaml", ".yml", ".json")


class PinnedImage(Struct, frozen=True):
    """An image, its replacement, and the places that name it."""

    image: str
    pinned: str
    uses: tuple[LocatedUse, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the image in JSON types."""
        return {"image": self.image, "pinned": self.pinned, "uses": [use_as_dict(use) for use in self.uses]}


class PinResult(Struct, frozen=True):
    """The changes that pin the images of files.

    Attributes:
        files: The new content of the files that change, by name.
        images: The images that change.
        related_images: The entries that are added to ``spec.relatedImages``.
        warnings: Images that cannot be pinned.
    """

    files: Mapping[str, bytes]
    images: tuple[PinnedImage, ...]
    related_images: tuple[RelatedImageEntry, ...]
    warnings: tuple[str, ...]


def use_as_dict(use: LocatedUse) -> dict[str, Any]:
    """Return a place that names an image in JSON types."""
    return {"file": use.file, "line": use.line, "role": str(use.use.role), "name": use.use.name}


def read_manifests(files: Mapping[str, bytes], *, in_json: bool = False) -> list[PinnableFile]:
    """Decode the manifests of a bundle, given by their paths; files that are neither YAML nor JSON are skipped.

    Args:
        files: The content of the files.
        in_json: Whether images in annotations that contain JSON are pinned as well.

    Raises:
        InvalidBundle: A document is invalid, or a field has the wrong type; the error names the file and the line.
    """
    manifests = ((name, raw) for name, raw in files.items() if name.endswith(MANIFEST_EXTENSIONS))
    find = partial(find_object_images, in_json=in_json)
    return [PinnableFile.read(name, raw, find) for name, raw in manifests]


def pin_files(
    files: Sequence[PinnableFile],
    images: Mapping[str, str],
    related_images: RelatedImagesMode = RelatedImagesMode.KEEP,
) -> PinResult:
    """Replace images in files, and add related images to the first ClusterServiceVersion in them.

    Args:
        files: The files that name the images.
        images: The replacement of each image, see `resolve_images`.
        related_images: What to do with ``spec.relatedImages``.

    Raises:
        InvalidBundle: An image cannot be replaced without other changes; the error names the file and the line.
    """
    uses = [use for file in files for use in file.uses()]
    csv = _find_csv(files)
    entries = missing_images((use.use for use in uses), images, related_images) if csv is not None else ()
    edit = partial(_edit, images=images, csv=csv, entries=entries)
    contents = {file.name: file.edit(edit) for file in files}
    return PinResult(
        files={file.name: contents[file.name] for file in files if contents[file.name] != file.raw},
        images=changed_images(uses, images),
        related_images=entries,
        warnings=tuple(warning for file in files for warning in file.warnings),
    )


def _find_csv(files: Sequence[PinnableFile]) -> PinnableDocument | None:
    return next((document for file in files for document in file.documents if document.is_csv), None)


def unlisted_images(files: Sequence[PinnableFile], related_images: RelatedImagesMode) -> str:
    """Return a warning about images with a digest that ``spec.relatedImages`` lacks, or "" if there are none."""
    csv = _find_csv(files)
    uses = [use.use for file in files for use in file.uses()]
    images = dict.fromkeys(entry.image for entry in missing_images(uses, {}, related_images)) if csv else {}
    if csv is None or not images:
        return ""
    return f"{csv.file}:{csv.line(RELATED_IMAGES)}: spec.relatedImages lacks {', '.join(images)}"


def _edit(
    document: PinnableDocument,
    *,
    images: Mapping[str, str],
    csv: PinnableDocument | None,
    entries: Sequence[RelatedImageEntry],
) -> bytes:
    """Return the text of a document with pinned images and, if it is the CSV, further related images."""
    added = None
    if document is csv and entries:
        added = add_related_images(document.text, document.root, document.value, entries)
    if added is None:
        return document.replace(images)
    edit, value = added
    return document.replace(images, value=value, edits=(edit,))


def changed_images(uses: Iterable[LocatedUse], images: Mapping[str, str]) -> tuple[PinnedImage, ...]:
    """Return the images that are replaced, with the places that name them."""
    places: dict[str, list[LocatedUse]] = {}
    for use in uses:
        if images[use.image] != use.image:
            places.setdefault(use.image, []).append(use)
    return tuple(PinnedImage(image, images[image], tuple(found)) for image, found in places.items())


_SPEC, _KEY = RELATED_IMAGES


def add_related_images(
    text: str, root: yaml.Node, value: JsonValue, entries: Sequence[RelatedImageEntry]
) -> tuple[TextEdit, JsonValue] | None:
    """Return the edit of the text that adds entries, and the new value; None if the document has no spec.

    Args:
        text: The text of the ClusterServiceVersion.
        root: The root of its node graph.
        value: Its value.
        entries: The entries to add, at least one.
    """
    spec, section = find_node(root, (_SPEC,)), find_node(root, RELATED_IMAGES)
    if not (isinstance(spec, yaml.MappingNode) and spec.value and isinstance(value, dict)):
        return None
    old_spec: Any = value[_SPEC]
    added: list[JsonValue] = [entry.as_dict() for entry in entries]
    new_value: JsonValue = {**value, _SPEC: {**old_spec, _KEY: [*(old_spec.get(_KEY) or []), *added]}}
    if isinstance(section, yaml.SequenceNode) and section.value:
        edit = insert_items(text, root, section, len(section.value), added)
    elif section is not None:
        edit = fill_collection(text, spec, spec, section, added)
    else:
        edit = insert_member(text, root, spec, _KEY, added)
    return edit, new_value


class RelatedImageEntry(Struct, frozen=True):
    """An entry of the section."""

    name: str
    image: str

    def as_dict(self) -> dict[str, JsonValue]:
        """Return the entry in JSON types."""
        return {"name": self.name, "image": self.image}


def missing_images(
    uses: Iterable[ImageField], images: Mapping[str, str], mode: RelatedImagesMode
) -> tuple[RelatedImageEntry, ...]:
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
    return tuple(RelatedImageEntry(name, image) for name, image in entries.items())


def _new_image(use: ImageField, images: Mapping[str, str]) -> str:
    return images.get(use.image, use.image)


def _names(use: ImageField, image: str) -> Iterator[str]:
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
