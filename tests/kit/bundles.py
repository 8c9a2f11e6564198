"""Minimal bundle images, written without the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import Platform
from opmkit.imagetools.store import LayoutRepository
from tests.kit.images import small_image

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.image import Image, ImageIndex
    from opmkit.imagetools.repository import Repository

_KEY = "operators.operatorframework.io.bundle"


def bundle_labels(package: str) -> dict[str, str]:
    """Return the labels of a bundle in the channel ``alpha``."""
    return {
        f"{_KEY}.mediatype.v1": "registry+v1",
        f"{_KEY}.manifests.v1": "manifests/",
        f"{_KEY}.metadata.v1": "metadata/",
        f"{_KEY}.package.v1": package,
        f"{_KEY}.channels.v1": "alpha",
    }


def bundle_content(package: str, version: str) -> dict[str, bytes]:
    """Return the files of the bundle ``PACKAGE.vVERSION`` by path."""
    csv = (
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n"
        f"metadata: {{name: {package}.v{version}}}\nspec: {{displayName: {package}, version: {version}}}\n"
    )
    lines = "".join(f"  {key}: {value}\n" for key, value in bundle_labels(package).items())
    return {"manifests/csv.yaml": csv.encode(), "metadata/annotations.yaml": f"annotations:\n{lines}".encode()}


def bundle_image(package: str, version: str, scratch: Path, *, platform: str = "linux/amd64") -> Image:
    """Return an image of the bundle ``PACKAGE.vVERSION``, whose layer is written to ``scratch``."""
    labels = bundle_labels(package)
    return small_image(scratch, bundle_content(package, version), labels=labels, platform=str(Platform.parse(platform)))


def open_repository(name: str) -> Repository:
    """Return the repository of a reference to a plain HTTP registry or an OCI layout."""
    reference = parse_image_reference(name)
    if name.startswith("oci:"):
        return LayoutRepository(reference.path)  # type: ignore[union-attr]
    return RegistryClient(RegistryOptions(plain_http=True)).repository(reference)  # type: ignore[arg-type]


def push_image(name: str, image: Image | ImageIndex) -> str:
    """Copy an image to a reference and return the reference."""
    copy_image(image, open_repository(name), parse_image_reference(name).tag)  # type: ignore[union-attr]
    return name


def resolve_digest(name: str) -> str:
    """Return the digest that a tag resolves to."""
    return open_repository(name).resolve(getattr(parse_image_reference(name), "tag", "")).digest
