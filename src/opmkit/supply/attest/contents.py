"""Statements about bundle and index images: their content, SLSA provenance, and CycloneDX bill of materials."""

from __future__ import annotations

import os
import uuid
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from opmkit._version import __version__
from opmkit.bundle import labels
from opmkit.core.environment import rfc3339, source_date_epoch
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


class ContainedBundle(Struct, frozen=True):
    """A bundle with its image, or "" for the image itself or none, and its related images."""

    package: str
    name: str
    version: str = ""
    image: str = ""
    related_images: tuple[str, ...] = ()


class ImageContents(Struct, frozen=True):
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
        bundles = _bundles_of(index_images(IndexSource.resolve(lambda: tool, image, load=False)))
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


OPMKIT = f"pkg:pypi/opmkit@{__version__}"
"""The package URL of this program, the default builder."""


def provenance(contents: ImageContents, builder: str = "") -> dict[str, Any]:
    """Describe the build of an image: the bundles in it, and the base and bundle images that it was made from.

    Digests are those that the image records: a bundle that an index refers to by tag has none. The document has a time
    only if SOURCE_DATE_EPOCH is set.

    Args:
        contents: The content of the image.
        builder: The URI of the platform that ran the build, such as a CI workflow; by default this program.
    """
    bundles = [
        {key: value for key, value in entry.items() if value}
        for bundle in contents.bundles
        for entry in [
            {"package": bundle.package, "name": bundle.name, "version": bundle.version, "image": bundle.image}
        ]
    ]
    materials = [bundle.image for bundle in contents.bundles if bundle.image]
    dependencies = [_dependency(image) for image in sorted({*materials, *filter(None, [contents.base])})]
    if contents.previous.startswith("sha256:"):
        digest = {"sha256": contents.previous.removeprefix("sha256:")}
        dependencies.append({"name": "previous index", "digest": digest})
    time = rfc3339(source_date_epoch()) if os.environ.get("SOURCE_DATE_EPOCH") else ""
    return {
        "buildDefinition": {
            "buildType": f"urn:opmkit:build:{contents.kind.value}:v1",
            "externalParameters": {"bundles": bundles},
            "internalParameters": {},
            "resolvedDependencies": dependencies,
        },
        "runDetails": {
            "builder": {"id": builder or OPMKIT, "version": {"opmkit": __version__}},
            "metadata": {"finishedOn": time} if time else {},
        },
    }


def _dependency(image: str) -> dict[str, Any]:
    algorithm, _, encoded = image_digest(image).partition(":")
    return {"uri": package_url(image) or image, "name": image} | ({"digest": {algorithm: encoded}} if encoded else {})


def sbom(contents: ImageContents) -> dict[str, Any]:
    """List the operators and images of a bundle or index image; the same image gives the same document.

    The document has a time only if SOURCE_DATE_EPOCH is set.
    """
    root = _image_component(contents.image)
    components = {root["bom-ref"]: root}
    dependencies: dict[str, set[str]] = {root["bom-ref"]: set()}
    for bundle in contents.bundles:
        component = _bundle_component(bundle)
        components.setdefault(component["bom-ref"], component)
        dependencies[root["bom-ref"]].add(component["bom-ref"])
        needed = dependencies.setdefault(component["bom-ref"], set())
        for image in bundle.related_images:
            components.setdefault(image, _image_component(image))
            needed.add(image)
    if contents.base:
        components.setdefault(contents.base, _image_component(contents.base))
        dependencies[root["bom-ref"]].add(contents.base)
    del components[root["bom-ref"]]
    tool = {"type": "application", "name": "opmkit", "version": __version__}
    time = {"timestamp": rfc3339(source_date_epoch())} if os.environ.get("SOURCE_DATE_EPOCH") else {}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"{contents.image} {sorted(components)}").urn,
        "version": 1,
        "metadata": {**time, "tools": {"components": [tool]}, "component": root},
        "components": [components[name] for name in sorted(components)],
        "dependencies": [
            {"ref": name, "dependsOn": sorted(needed - {name})} for name, needed in sorted(dependencies.items())
        ],
    }


def _image_component(image: str) -> dict[str, Any]:
    component: dict[str, Any] = {"type": "container", "bom-ref": image, "name": image.partition("@")[0]}
    digest, purl = image_digest(image), package_url(image)
    if digest:
        component["version"] = digest
    if digest.startswith("sha256:"):
        component["hashes"] = [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}]
    return component | ({"purl": purl} if purl else {})


def _bundle_component(bundle: ContainedBundle) -> dict[str, Any]:
    """Describe a bundle: its image, or the operator in it if it has no image."""
    component: dict[str, Any] = {"type": "application", "bom-ref": f"bundle:{bundle.package}/{bundle.name}"}
    if bundle.image:
        component = _image_component(bundle.image)
    component["name"] = bundle.name
    if bundle.version:
        component["version"] = bundle.version
    properties = {"opmkit:package": bundle.package, "opmkit:image": bundle.image}
    return component | {"properties": [{"name": name, "value": value} for name, value in properties.items() if value]}
