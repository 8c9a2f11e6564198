"""Index images: the database taken out of one, and baked into a new one.

The labels, entry point, command and port are those that OLM's catalog pods and the reference tool rely on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.bundle.labels import INDEX_CONFIGS, INDEX_DATABASE
from opmkit.imagetools.epoch import rfc3339
from opmkit.imagetools.image import Image, MultiImage
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.spec import ConfigChanges
from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.tools import ContainerTool

DATABASE_PATH = "/database/index.db"
PORT = 50051
ENTRYPOINT = ("/bin/opm",)
COMMAND = ("registry", "serve", "--database", DATABASE_PATH)

DEFAULT_BINARY_IMAGE = "quay.io/operator-framework/opm:v1.73.0"
"""The last release of the reference that serves sqlite indexes: a later one could not start on the images made here."""

SCRATCH = "scratch"
BASE_NAME = "org.opencontainers.image.base.name"
BASE_DIGEST = "org.opencontainers.image.base.digest"


@dataclass(frozen=True, slots=True)
class Base:
    """What a new index image is layered on, and the annotations that record where it came from."""

    image: Image | MultiImage
    annotations: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def scratch(cls) -> Base:
        """Nothing at all."""
        return cls(Image.scratch())


def extract_database(tool: ContainerTool, reference: ImageReference, destination: Path) -> Base:
    """Copy the database of an index image to ``destination``, and give what lies under it.

    Only the layers from the top down to the database are read. What lies under it is the image without the layer that
    holds nothing else, so that an index does not grow by a layer each time it is updated.

    Raises CatalogError where the image is no sqlite index, and ImageToolsError for what goes wrong in reading it.
    """
    image = tool.load(reference)
    if isinstance(image, Image):
        return Base(
            _without_database(tool, image, reference, destination), _base_annotations(image.manifest.annotations)
        )
    first = image.select()  # the database is the same on every platform; the others are read only if theirs differ
    bare = {first.digest: _without_database(tool, first, reference, destination)}
    spare = destination.with_name(f"{destination.name}.other")
    for other in image.images:
        if other.digest not in bare:
            bare[other.digest] = _without_database(tool, other, reference, spare)
    under = image.with_images([bare[one.digest] for one in image.images])
    return Base(under, _base_annotations(image.index.annotations))


def _without_database(tool: ContainerTool, image: Image, reference: ImageReference, destination: Path) -> Image:
    """Copy the database out of one platform's image; the image without its layer."""
    path = _database_path(image, reference)
    found = tool.find_file(image, path, destination)
    if found is None:
        raise CatalogError(
            f"index image {reference}: no file {path}, which its label {INDEX_DATABASE} names",
            advice="the image is damaged or mislabelled: start from another tag of this index",
        )
    return image.without_layers({found.layer}) if found.alone else image


def _database_path(image: Image, reference: ImageReference) -> str:
    path = image.labels.get(INDEX_DATABASE)
    if path:
        return path
    if INDEX_CONFIGS in image.labels:
        raise CatalogError(
            f"index image {reference} is a file-based catalog: it has no label {INDEX_DATABASE}",
            advice="name an index image that holds a sqlite database",
        )
    raise CatalogError(
        f"index image {reference} missing label {INDEX_DATABASE}",
        advice="--from-index takes an index image; a bundle image goes to --bundles",
    )


def _base_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: annotations[key] for key in (BASE_NAME, BASE_DIGEST) if key in annotations}


def named_base(tool: ContainerTool, name: str) -> Base:
    """The base image called ``name``, for every platform that it has; ``scratch`` is the empty image."""
    if name == SCRATCH:
        return Base.scratch()
    reference = parse_image_reference(name)
    image = tool.load(reference)
    return Base(image, {BASE_NAME: str(reference), BASE_DIGEST: image.digest})


def bake(base: Base, database: Path, directory: Path, *, created: int = 0) -> Image | MultiImage:
    """Layer ``database`` on ``base``. ``created`` is in seconds of Unix time; ``directory`` receives the layer's file.

    The result is a value: nothing is stored or pushed, and no layer of the base is read. It is an OCI image, so that
    it bears the base's annotations and has one digest wherever it goes.
    """
    layer = write_layer([LayerFile(DATABASE_PATH.lstrip("/"), database)], directory, mtime=created)
    changes = ConfigChanges(
        labels={INDEX_DATABASE: DATABASE_PATH},
        entrypoint=ENTRYPOINT,
        cmd=COMMAND,
        exposed_ports=(f"{PORT}/tcp",),
    )
    return base.image.as_oci().append([layer], changes, annotations=base.annotations, created=rfc3339(created))


def dockerfile(binary_image: str, database: str) -> str:
    """The text of a Dockerfile that bakes the file ``database`` of its build context as :func:`bake` does."""

    def exec_form(words: tuple[str, ...]) -> str:
        return "[" + ", ".join(f'"{word}"' for word in words) + "]"

    lines = (
        f"FROM {binary_image}",
        "",
        "# Where OLM finds the database in this image.",
        f"LABEL {INDEX_DATABASE}={DATABASE_PATH}",
        f"ADD {database} {DATABASE_PATH}",
        f"EXPOSE {PORT}",
        f"ENTRYPOINT {exec_form(ENTRYPOINT)}",
        f"CMD {exec_form(COMMAND)}",
    )
    return "\n".join(lines) + "\n"
