"""Images in the storage that podman, buildah and skopeo share, moved by whichever of these programs there is."""

from __future__ import annotations

import shutil
import subprocess
import weakref
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from opmkit.imagetools.archive import new_archive, write_oci_archive
from opmkit.imagetools.engines.errors import engine_failure
from opmkit.imagetools.errors import EngineUnavailable, InvalidImage
from opmkit.imagetools.layer.compression import MAGIC_SIZE, detect_compression, layer_media_type
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.spec import MAX_MANIFEST_SIZE, Descriptor, Manifest, parse_manifest
from opmkit.imagetools.uncompressed import UncompressedImage, compressed_layers

if TYPE_CHECKING:
    from opmkit.imagetools.image import Image
    from opmkit.imagetools.reference import StorageReference

_ARCHIVE = "image.tar"
_COPY = "copy"
# Each program with its command to put _ARCHIVE into the storage, and to copy the image {name} to the directory _COPY.
_PROGRAMS = {
    "podman": (("pull", "--quiet", f"oci-archive:{_ARCHIVE}"), ("push", "--quiet", "{name}", f"dir:{_COPY}")),
    "buildah": (("pull", "--quiet", f"oci-archive:{_ARCHIVE}"), ("push", "--quiet", "-D", "{name}", f"dir:{_COPY}")),
    "skopeo": (
        ("copy", "--quiet", f"oci-archive:{_ARCHIVE}", "containers-storage:{name}"),
        ("copy", "--quiet", "containers-storage:{name}", f"dir:{_COPY}"),
    ),
}


def read_from_storage(reference: StorageReference) -> UncompressedImage:
    """The image, copied to a temporary directory that is gone with the object.

    Its manifest is that of the storage, with the layers as they lie there. Raises EngineUnavailable where there is
    none of the programs, NotFound and EngineError.
    """
    scratch = ScratchDirectory("opm-storage-")
    try:
        _run(reference, reference.name, 1, Path(scratch.name))
        image = _read_copy(Path(scratch.name, _COPY), str(reference))
    except BaseException:
        scratch.cleanup()
        raise
    weakref.finalize(image, scratch.cleanup)
    return image


def _read_copy(directory: Path, place: str) -> UncompressedImage:
    """The image in a directory as the programs write it: manifest.json, and each blob by the digits of its digest."""

    def open_blob(digest: str) -> BinaryIO:
        return (directory / digest.partition(":")[2]).open("rb")

    with (directory / "manifest.json").open("rb") as file:
        manifest = parse_manifest(file.read(MAX_MANIFEST_SIZE + 1))
    if not isinstance(manifest, Manifest):
        raise InvalidImage(f"{place} is a list of images", hint="name one of them")
    layers = []
    for layer in manifest.layers:
        with open_blob(layer.digest) as stream:
            layers.append(_as_it_lies(layer, manifest, stream.read(MAGIC_SIZE)))
    manifest = Manifest.build(manifest.config, layers, manifest.annotations, manifest.media_type)
    return UncompressedImage(
        place, manifest, {part.digest: partial(open_blob, part.digest) for part in manifest.children}
    )


def load_into_storage(image: Image, reference: StorageReference, *, progress: Progress = NO_PROGRESS) -> Descriptor:
    """Put an image under a name into the storage, which keeps its manifest; raises as read_from_storage does."""
    name = str(reference.reference)
    with ScratchDirectory("opm-storage-") as scratch, compressed_layers(image, progress) as whole:
        with new_archive(Path(scratch, _ARCHIVE)) as writer:
            written = write_oci_archive(whole, writer, name, progress=progress)
        _run(reference, name, 0, Path(scratch))
    return written


def _run(reference: StorageReference, name: str, command: int, directory: Path) -> None:
    """Run one of the two commands of the first program that is there, in a directory."""
    program = next((program for program in _PROGRAMS if shutil.which(program)), None)
    if program is None:
        hint = "install podman, buildah or skopeo; or copy the image through an archive: oci-archive:FILE"
        raise EngineUnavailable(f"{reference}: none of {', '.join(_PROGRAMS)} is installed", hint=hint)
    arguments = [argument.format(name=name) for argument in _PROGRAMS[program][command]]
    done = subprocess.run(
        [program, *arguments],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise engine_failure(str(reference), program, done.stderr, insecure_hint="")


def _as_it_lies(layer: Descriptor, manifest: Manifest, head: bytes) -> Descriptor:
    """The layer with the type that its content has: programs copy an uncompressed one under the type it came with."""
    media_type = layer_media_type(detect_compression(head), manifest.media_type)
    return Descriptor(media_type, layer.digest, layer.size)
