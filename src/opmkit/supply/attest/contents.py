"""Operators and images in a bundle or index image, which statements about it list."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from opmkit.bundle import labels
from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import Reference
from opmkit.index.errors import CatalogError
from opmkit.index.image.base import BASE_DIGEST, BASE_NAME, MADE_FROM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.bundle.model import Bundle
    from opmkit.imagetools.image import Image
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.operations.related_images import ImageUse


class ContentKind(StrEnum):
    """The kind of an image."""

    BUNDLE = "bundle"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class ContainedBundle:
    """A bundle with its image, or "" for the image itself or none, and its related images."""

    package: str
    name: str
    version: str = ""
    image: str = ""
    related_images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageContents:
    """The content of a bundle or index image.

    Attributes:
        image: The reference of the image, by digest.
        kind: Whether it is a bundle or an index.
        bundles: The bundles in it, sorted by package and name.
        base: The reference of the base image by digest, or "" if it is not known.
        previous: The digest of the index image that it was made from, or "" if there is none.
    """

    image: str
    kind: ContentKind
    bundles: tuple[ContainedBundle, ...]
    base: str = ""
    previous: str = ""


def read_contents(tool: RegistryTool, image: str) -> ImageContents:
    """Read a bundle or index image; ``image`` is its reference by digest.

    Raises:
        CatalogError: The image is neither a bundle nor an index.
        BundleError, InvalidCatalog: The content is invalid.
        ImageToolsError: The image cannot be read.
    """
    from opmkit.bundle.load import load_bundle_image
    from opmkit.imagetools.reference import parse_image_reference
    from opmkit.index.image.source import IndexSource
    from opmkit.index.operations.related_images import index_images

    inspected = tool.inspect(parse_image_reference(image))
    base, previous = _base(inspected), inspected.annotations.get(MADE_FROM, "")
    if not {labels.INDEX_DATABASE, labels.INDEX_CONFIGS}.isdisjoint(inspected.labels):
        bundles = _bundles_of(index_images(IndexSource.resolve(lambda: tool, image)))
        return ImageContents(image, ContentKind.INDEX, bundles, base, previous)
    if labels.PACKAGE in inspected.labels:
        return ImageContents(image, ContentKind.BUNDLE, (_contained(load_bundle_image(tool, image)),), base)
    raise CatalogError(
        f"{image}: not a bundle or index image: it has no label of operator-framework",
        hint="pass a bundle or index image, or attest a predicate from a file",
    )


def _contained(bundle: Bundle) -> ContainedBundle:
    related = tuple(image for image in bundle.related_images if image != bundle.image)
    return ContainedBundle(bundle.package, bundle.name, bundle.version, related_images=related)


def _bundles_of(uses: Iterable[ImageUse]) -> tuple[ContainedBundle, ...]:
    images: dict[tuple[str, str], str] = {}
    related: dict[tuple[str, str], dict[str, None]] = {}
    for use in uses:
        key = (use.package, use.bundle)
        related.setdefault(key, {})
        if use.kind == "bundle":
            images[key] = use.image
        else:
            related[key][use.image] = None
    return tuple(
        ContainedBundle(*key, image=images.get(key, ""), related_images=tuple(sorted(related[key])))
        for key in sorted(related)
    )


def _base(image: Image) -> str:
    name, digest = (image.annotations.get(key, "") for key in (BASE_NAME, BASE_DIGEST))
    try:
        return str(Reference.parse(name).with_digest(digest)) if name and digest else ""
    except InvalidReference:
        return ""


def package_url(image: str) -> str:
    """Return the package URL of an image (``pkg:oci``), or "" if the reference is invalid."""
    try:
        reference = Reference.parse(image)
    except InvalidReference:
        return ""
    name = quote(reference.repository.rpartition("/")[2])
    version = f"@{quote(reference.digest, safe='')}" if reference.digest else ""
    qualifiers = {"repository_url": reference.name} | ({"tag": reference.tag} if reference.tag else {})
    return f"pkg:oci/{name}{version}?{urlencode(qualifiers, safe='/')}"


def image_digest(image: str) -> str:
    """Return the digest in a reference, or "" if it has none or is invalid."""
    try:
        return Reference.parse(image).digest or ""
    except InvalidReference:
        return ""
