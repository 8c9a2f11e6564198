"""Index images: the database taken out of one, and baked into a new one.

The labels, entry point, command and port are those that OLM's catalog pods and the reference tool rely on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from opmkit.bundle.labels import INDEX_CONFIGS, INDEX_DATABASE
from opmkit.imagetools.image import Image, MultiImage, for_platforms
from opmkit.imagetools.layer import LayerFile
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.spec import ImageIndex
from opmkit.imagetools.tools.formats import ImageFormat
from opmkit.imagetools.tools.recipe import Recipe
from opmkit.imagetools.unpacked import pack
from opmkit.index.errors import CatalogError, FileBasedCatalog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.spec import Manifest, Platform
    from opmkit.imagetools.tools import ContainerTool, InspectedImage
    from opmkit.imagetools.tools.registry import RegistryTool

DATABASE_PATH = "/database/index.db"
PORT = 50051
ENTRYPOINT = ("/bin/opm",)
COMMAND = ("registry", "serve", "--database", DATABASE_PATH)

DEFAULT_BINARY_IMAGE = "quay.io/operator-framework/opm:v1.73.0"
"""The last release of the reference that serves sqlite indexes: a later one could not start on the images made here."""

SCRATCH = "scratch"
BASE_NAME = "org.opencontainers.image.base.name"
BASE_DIGEST = "org.opencontainers.image.base.digest"
MADE_FROM = "opmkit.index.made-from"
"""The annotation of an index with the digest of the index that it was made from."""


@dataclass(frozen=True, slots=True)
class Base:
    """What a new index image is layered on, and the annotations that record where it came from.

    ``old`` is the digest of the index that the new one is made from, "" where there is none, and ``before_old`` that of
    the index that this one was made from.
    """

    image: Image | MultiImage
    annotations: Mapping[str, str] = field(default_factory=dict)
    old: str = ""
    before_old: str = ""

    @classmethod
    def scratch(cls, platforms: Sequence[Platform] = ()) -> Base:
        """Nothing at all, for linux/amd64 or for these platforms."""
        images = [Image.scratch(platform) for platform in dict.fromkeys(platforms)] or [Image.scratch()]
        if len(images) == 1:
            return cls(images[0])
        described = [replace(image.manifest.descriptor, platform=image.config.platform) for image in images]
        return cls(MultiImage(ImageIndex.build(described), tuple(images)))

    def following(self, other: Base) -> Base:
        """This base for an index that is made from the same one as with ``other``."""
        return replace(self, old=other.old, before_old=other.before_old)


def made_from(manifest: Manifest | ImageIndex) -> str:
    """The digest of the index that an index was made from, "" where it doesn't say."""
    return manifest.annotations.get(MADE_FROM, "")


def extract_database(
    tool: RegistryTool, reference: ImageReference, destination: Path, platforms: Sequence[Platform] = ()
) -> Base:
    """Copy the database of an index image to ``destination``, and give what lies under it, for these platforms or all.

    Only the layers from the top down to the database are read. What lies under it is the image without the layer that
    holds nothing else, so that an index does not grow by a layer each time it is updated.

    Raises CatalogError where the image is no sqlite index, NotFound for platforms that it hasn't, and ImageToolsError
    for what goes wrong in reading it.
    """
    image = tool.load(reference)
    manifest = image.manifest if isinstance(image, Image) else image.index
    annotations = {key: manifest.annotations[key] for key in (BASE_NAME, BASE_DIGEST) if key in manifest.annotations}
    image = for_platforms(image, platforms, f"index image {reference}")
    under = _under_database(tool, image, reference, destination)
    return Base(under, annotations, manifest.digest, made_from(manifest))


def _under_database(
    tool: RegistryTool, image: Image | MultiImage, reference: ImageReference, destination: Path
) -> Image | MultiImage:
    """Copy the database out of an image; what lies under it."""
    if isinstance(image, Image):
        return _without_database(tool, image, reference, destination)
    first = image.select()  # the database is the same on every platform; the others are read only if theirs differ
    bare = {first.digest: _without_database(tool, first, reference, destination)}
    spare = destination.with_name(f"{destination.name}.other")
    for other in image.images:
        if other.digest not in bare:
            bare[other.digest] = _without_database(tool, other, reference, spare)
    return image.with_images([bare[one.digest] for one in image.images])


def _without_database(tool: RegistryTool, image: Image, reference: ImageReference, destination: Path) -> Image:
    """Copy the database out of one platform's image; the image without its layer."""
    path = _database_path(image, reference)
    found = tool.find_file(image, path, destination)
    if found is None:
        raise _no_database(reference, path)
    return image.without_layers({found.layer}) if found.alone else image


def _no_database(reference: ImageReference, path: str) -> CatalogError:
    return CatalogError(
        f"index image {reference}: no file {path}, which its label {INDEX_DATABASE} names",
        advice="the image is damaged or mislabelled: start from another tag of this index",
    )


def _database_path(image: InspectedImage, reference: ImageReference) -> str:
    path = image.labels.get(INDEX_DATABASE)
    if path:
        return path
    if INDEX_CONFIGS in image.labels:
        raise FileBasedCatalog(
            f"index image {reference} is a file-based catalog: it has no label {INDEX_DATABASE}",
            advice="name an index image that holds a sqlite database",
        )
    raise CatalogError(
        f"index image {reference} missing label {INDEX_DATABASE}",
        advice="--from-index takes an index image; a bundle image goes to --bundles",
    )


def read_database(tool: ContainerTool, reference: ImageReference, destination: Path) -> InspectedImage:
    """Copy the database of an index image to ``destination``, and tell of the image; any tool can.

    Raises CatalogError where the image is no sqlite index, and ImageToolsError for what goes wrong in reading it.
    """
    image = tool.inspect(reference)
    path = _database_path(image, reference)
    if not tool.copy_file(reference, path, destination):
        raise _no_database(reference, path)
    return image


def named_base(tool: RegistryTool, name: str, platforms: Sequence[Platform] = ()) -> Base:
    """The base image called ``name``, for these platforms or all that it has; ``scratch`` is the empty image.

    Raises NotFound for platforms that it hasn't, and ImageToolsError.
    """
    if name == SCRATCH:
        return Base.scratch(platforms)
    reference = parse_image_reference(name)
    image = tool.load(reference)
    annotations = {BASE_NAME: str(reference), BASE_DIGEST: image.digest}
    return Base(for_platforms(image, platforms, f"base image {reference}"), annotations)


def index_recipe(database: Path, annotations: Mapping[str, str], created: int) -> Recipe:
    """What an index image has besides its base, whichever tool builds it; ``created`` is in seconds of Unix time."""
    return Recipe(
        files=(LayerFile(DATABASE_PATH.lstrip("/"), database),),
        labels={INDEX_DATABASE: DATABASE_PATH},
        entrypoint=ENTRYPOINT,
        cmd=COMMAND,
        exposed_ports=(f"{PORT}/tcp",),
        annotations=annotations,
        created=created,
    )


def bake(
    base: Base, database: Path, directory: Path, *, form: ImageFormat = ImageFormat.OCI, created: int = 0
) -> Image | MultiImage:
    """Layer ``database`` on ``base``. ``created`` is in seconds of Unix time; ``directory`` receives the layer's file.

    The result is a value: nothing is stored or pushed, and no layer of the base is read, but those that an archive or
    engine keeps uncompressed. It is of the format ``form`` on a base of any, so that it has one digest wherever it
    goes. It names the index that it was made from, unless it comes out as the same one.
    """
    packed = pack(base.image, directory)  # what it is published by is its digest
    image = index_recipe(database, base.annotations, created).on(packed.in_format(form.manifest_type), directory)
    if not base.old:
        return image
    unchanged = image.annotated({MADE_FROM: base.before_old}) if base.before_old else image
    return unchanged if unchanged.digest == base.old else image.annotated({MADE_FROM: base.old})


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
