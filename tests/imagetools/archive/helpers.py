"""Writing and reading of small archives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.imagetools.archive import (
    ArchivedLayout,
    TarArchive,
    new_archive,
    read_docker_archive,
    write_docker_archive,
    write_oci_archive,
)
from opmkit.imagetools.image import Image, load_image
from opmkit.imagetools.layer import read_tree
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.store.reader import LayoutReader
from tests.kit.images import Member, tar

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.spec import Descriptor


FILES = {"manifests/a.yaml": b"a: 1\n", "é/" + "x" * 120: b"\0" * 1000}
LABELS = {"a": "b"}
NAME = Reference.parse("quay.io/me/lagoon:1.0")


def content(image: Image) -> dict[str, bytes]:
    """Return the files of an image."""
    return read_tree(reversed(image.layers), [""])


def docker_image(path: Path, name: Reference | None = None, position: int | None = None) -> Image:
    """Load an image from a docker archive."""
    return load_image(read_docker_archive(TarArchive.open(path), name, position), "")


def oci_image(path: Path, identifier: str = "") -> Image:
    """Load an image from an OCI archive."""
    return load_image(LayoutReader(ArchivedLayout(TarArchive.open(path))), identifier)


def write_tar_file(path: Path, *members: Member) -> Path:
    """Write a tar file with any members, and return its path."""
    path.write_bytes(tar(members))
    return path


def write_archive(path: Path, image: Image, kind: str = "docker") -> Descriptor:
    """Write a ``docker`` or ``oci`` archive of an image."""
    with new_archive(path) as writer:
        if kind == "docker":
            return write_docker_archive(image, writer, NAME)
        return write_oci_archive(image, writer, "1.0")
