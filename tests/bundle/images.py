"""Images of sample bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.unpack import bundle_build_spec
from opmkit.imagetools.image import Image
from opmkit.imagetools.reference import parse_image_reference

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.bundle.generate import GeneratedMetadata
    from opmkit.imagetools.tools.registry import RegistryTool


def build_image(bundle: GeneratedMetadata, directory: Path) -> Image:
    return bundle_build_spec(bundle.manifests, bundle.metadata).build_on(Image.scratch(), directory)


def push(tool: RegistryTool, image: Image, directory: Path) -> str:
    reference = f"oci:{directory / 'layout'}:1"
    tool.push(image, parse_image_reference(reference))
    return reference


def files(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }
