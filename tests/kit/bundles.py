"""Bundle images of next to nothing, made without the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.images import small_image
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import Platform
from opmkit.imagetools.store import LayoutRepository

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.image import Image, MultiImage
    from opmkit.imagetools.repository import Repository

_KEY = "operators.operatorframework.io.bundle"


def bundle_image(package: str, version: str, scratch: Path, *, platform: str = "linux/amd64") -> Image:
    """An image of the bundle ``PACKAGE.vVERSION`` in the channel ``alpha``; its layer lies in ``scratch``."""
    annotations = {
        f"{_KEY}.mediatype.v1": "registry+v1",
        f"{_KEY}.manifests.v1": "manifests/",
        f"{_KEY}.metadata.v1": "metadata/",
        f"{_KEY}.package.v1": package,
        f"{_KEY}.channels.v1": "alpha",
    }
    csv = (
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n"
        f"metadata: {{name: {package}.v{version}}}\nspec: {{displayName: {package}, version: {version}}}\n"
    )
    lines = "".join(f"  {key}: {value}\n" for key, value in annotations.items())
    files = {"manifests/csv.yaml": csv.encode(), "metadata/annotations.yaml": f"annotations:\n{lines}".encode()}
    return small_image(scratch, files, labels=annotations, platform=str(Platform.parse(platform)))


def repository_of(name: str) -> Repository:
    """The repository of a plain http registry, or the layout, that a reference names."""
    reference = parse_image_reference(name)
    if name.startswith("oci:"):
        return LayoutRepository(reference.path)  # type: ignore[union-attr]
    return RegistryClient(RegistryOptions(plain_http=True)).repository(reference)  # type: ignore[arg-type]


def put_under(name: str, image: Image | MultiImage) -> str:
    """Put an image under its name; the name."""
    copy_image(image, repository_of(name), parse_image_reference(name).tag)  # type: ignore[union-attr]
    return name


def tag_of(name: str) -> str:
    """The digest of what a name with a tag names now."""
    return repository_of(name).resolve(parse_image_reference(name).tag).digest  # type: ignore[union-attr]
