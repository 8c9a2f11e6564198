"""Index images: what they are layered on, and what makes them such.

The labels, entry point, command and port are those that OLM's catalog pods and the reference tool rely on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from opmkit.bundle.labels import INDEX_DATABASE
from opmkit.imagetools.image import Image, ImageIndex, select_platforms
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.spec import IndexManifest
from opmkit.imagetools.uncompressed import compress_layers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.spec import Manifest, Platform
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

    image: Image | ImageIndex
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
        return cls(ImageIndex(IndexManifest.build(described), tuple(images)))

    def following(self, other: Base) -> Base:
        """This base for an index that is made from the same one as with ``other``."""
        return replace(self, old=other.old, before_old=other.before_old)


def made_from(manifest: Manifest | IndexManifest) -> str:
    """The digest of the index that an index was made from, "" where it doesn't say."""
    return manifest.annotations.get(MADE_FROM, "")


def named_base(tool: RegistryTool, name: str, platforms: Sequence[Platform] = ()) -> Base:
    """The base image called ``name``, for these platforms or all that it has; ``scratch`` is the empty image.

    Raises NotFound for platforms that it hasn't, and ImageToolsError.
    """
    if name == SCRATCH:
        return Base.scratch(platforms)
    reference = parse_image_reference(name)
    image = tool.load(reference)
    annotations = {BASE_NAME: str(reference), BASE_DIGEST: image.digest}
    return Base(select_platforms(image, platforms, f"base image {reference}"), annotations)


def bake(
    base: Base, build_spec: BuildSpec, directory: Path, *, form: ImageFormat = ImageFormat.OCI
) -> Image | ImageIndex:
    """Layer an index on ``base``; ``directory`` receives the layer's file.

    The result is a value: nothing is stored or pushed, and no layer of the base is read, but those that an archive or
    engine keeps uncompressed. It is of the format ``form`` on a base of any, so that it has one digest wherever it
    goes. It names the index that it was made from, unless it comes out as the same one.
    """
    packed = compress_layers(base.image, directory)  # what it is published by is its digest
    build_spec = replace(build_spec, annotations=base.annotations)
    image = build_spec.on(packed.in_format(form.manifest_type), directory)
    if not base.old:
        return image
    unchanged = image.with_annotations({MADE_FROM: base.before_old}) if base.before_old else image
    return unchanged if unchanged.digest == base.old else image.with_annotations({MADE_FROM: base.old})


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
