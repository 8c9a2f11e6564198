"""Read and write images in the storage of podman and buildah, and of a docker daemon."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

import requests
from docker.errors import DockerException
from docker.errors import NotFound as DockerNotFound

from opmkit.core.files import disk_errors
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.scratch import ScratchDirectory, finalize
from opmkit.core.search_paths import find_program
from opmkit.imagetools.archive import (
    TarArchive,
    TarWriter,
    new_archive,
    read_docker_archive,
    write_docker_archive,
    write_oci_archive,
)
from opmkit.imagetools.engines.docker import connect
from opmkit.imagetools.engines.engine import engine_error, single_line
from opmkit.imagetools.errors import EngineError, EngineUnavailable, InvalidImage, InvalidReference, NotFound
from opmkit.imagetools.layer import DISK_LIMITS, LimitTracker
from opmkit.imagetools.layer.compression import MAGIC_SIZE, detect_compression, layer_media_type
from opmkit.imagetools.spec import MAX_MANIFEST_SIZE, Descriptor, Manifest, parse_manifest
from opmkit.imagetools.uncompressed import UncompressedImage, compressed_layers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.image import Image
    from opmkit.imagetools.reference import DaemonReference, StorageReference


def read_from_daemon(reference: DaemonReference) -> UncompressedImage:
    """Copy an image from the daemon to an unnamed temporary file, and return it.

    Raises:
        EngineUnavailable: The daemon is not running.
        EngineError: The daemon reported an error.
        NotFound: The daemon does not have the image.
        LimitExceeded: The image is too large.
    """
    tracker = LimitTracker(DISK_LIMITS)
    spool = _temporary_file()
    try:
        with closing(connect(os.environ)) as client, _sdk_errors(reference), disk_errors(Path(tempfile.gettempdir())):
            for chunk in client.get_image(str(reference.reference or reference.name)):
                tracker.add("total_bytes", len(chunk), str(reference))
                spool.write(chunk)
        spool.seek(0)
        return read_docker_archive(TarArchive(spool, str(reference)))
    except BaseException:
        spool.close()
        raise


def load_into_daemon(image: Image, reference: DaemonReference, *, progress: Progress = NO_PROGRESS) -> Descriptor:
    """Load an image into the daemon and tag it; return the descriptor that read_from_daemon gives it.

    Raises:
        EngineUnavailable: The daemon is not running.
        EngineError: The daemon rejected the image.
        InvalidReference: The reference is an image ID.
        UnsupportedImage: The image has foreign layers.
    """
    name = reference.reference
    if name is None:
        raise InvalidReference(f"{reference}: cannot load an image by ID", hint="use docker-daemon:NAME:TAG")
    with closing(connect(os.environ)) as client, _temporary_file() as spool:
        writer = TarWriter(spool)
        descriptor = write_docker_archive(image, writer, name, progress=progress)
        writer.finish()
        spool.seek(0)
        with _sdk_errors(reference):
            for message in client.load_image(spool):
                if "error" in message:
                    error = single_line(str(message["error"]))
                    raise EngineError(
                        f"{reference}: docker cannot load the image: {error}", hint="check the log of the docker daemon"
                    )
    return descriptor


def _temporary_file() -> BinaryIO:
    return cast("BinaryIO", tempfile.TemporaryFile(prefix="opm-docker-"))


@contextmanager
def _sdk_errors(reference: DaemonReference) -> Iterator[None]:
    """Convert errors of the SDK to ImageToolsErrors that name the image."""
    try:
        yield
    except DockerNotFound as error:
        raise NotFound(
            f"{reference}: image not found in the docker daemon", hint="list the images with 'docker images'"
        ) from error
    except (DockerException, requests.RequestException) as error:
        raise EngineError(
            f"{reference}: docker: {single_line(str(error))}", hint="check that the docker daemon is running"
        ) from error


Action = Literal["load", "save"]

_ARCHIVE = "image.tar"
_DIRECTORY = "image"
# "load" loads _ARCHIVE into the storage, "save" saves the image {name} to _DIRECTORY.
_COMMANDS: dict[str, dict[Action, tuple[str, ...]]] = {
    "podman": {
        "load": ("pull", "--quiet", f"oci-archive:{_ARCHIVE}"),
        "save": ("push", "--quiet", "{name}", f"dir:{_DIRECTORY}"),
    },
    "buildah": {
        "load": ("pull", "--quiet", f"oci-archive:{_ARCHIVE}"),
        "save": ("push", "--quiet", "-D", "{name}", f"dir:{_DIRECTORY}"),
    },
    "skopeo": {
        "load": ("copy", "--quiet", f"oci-archive:{_ARCHIVE}", "containers-storage:{name}"),
        "save": ("copy", "--quiet", "containers-storage:{name}", f"dir:{_DIRECTORY}"),
    },
}


def read_from_storage(reference: StorageReference) -> UncompressedImage:
    """Copy an image from the storage to a temporary directory, which is removed together with the returned object.

    Raises:
        EngineUnavailable: None of the programs is installed.
        EngineError: The program reported an error.
        NotFound: The storage does not have the image.
    """
    scratch = ScratchDirectory("opm-storage-")
    try:
        _run("save", reference, reference.name, Path(scratch.name))
        image = _read_directory(Path(scratch.name, _DIRECTORY), str(reference))
    except BaseException:
        scratch.cleanup()
        raise
    finalize(image, scratch.cleanup)
    return image


def load_into_storage(image: Image, reference: StorageReference, *, progress: Progress = NO_PROGRESS) -> Descriptor:
    """Load an image into the storage, tag it and return its descriptor.

    Raises:
        EngineUnavailable: None of the programs is installed.
        EngineError: The program reported an error.
    """
    name = str(reference.reference)
    with ScratchDirectory("opm-storage-") as scratch, compressed_layers(image, progress) as compressed:
        with new_archive(Path(scratch, _ARCHIVE)) as writer:
            descriptor = write_oci_archive(compressed, writer, name, progress=progress)
        _run("load", reference, name, Path(scratch))
    return descriptor


def _read_directory(directory: Path, location: str) -> UncompressedImage:
    """Read an image in the ``dir:`` format: manifest.json, and blobs named by the hexadecimal part of their digests."""

    def open_blob(digest: str) -> BinaryIO:
        return (directory / digest.partition(":")[2]).open("rb")

    with (directory / "manifest.json").open("rb") as file:
        manifest = parse_manifest(file.read(MAX_MANIFEST_SIZE + 1))
    if not isinstance(manifest, Manifest):
        raise InvalidImage(f"{location}: not an image but an image index", hint="use the name of one of its images")
    layers = []
    for layer in manifest.layers:
        with open_blob(layer.digest) as stream:
            layers.append(_with_actual_type(layer, manifest, stream.read(MAGIC_SIZE)))
    manifest = Manifest.build(manifest.config, layers, manifest.annotations, manifest.media_type)
    blobs = {blob.digest: partial(open_blob, blob.digest) for blob in manifest.children}
    return UncompressedImage(location, manifest, blobs)


def _run(action: Action, reference: StorageReference, name: str, directory: Path) -> None:
    """Run an action with the first program that is installed, in a directory."""
    found = ((name, find_program(name)) for name in _COMMANDS)
    engine, program = next(((name, path) for name, path in found if path), ("", ""))
    if not program:
        hint = "install podman, buildah or skopeo, or copy the image through an archive: oci-archive:FILE"
        raise EngineUnavailable(f"{reference}: none of {', '.join(_COMMANDS)} is installed", hint=hint)
    arguments = [argument.format(name=name) for argument in _COMMANDS[engine][action]]
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
        raise engine_error(str(reference), engine, done.stderr, insecure_hint="")


def _with_actual_type(layer: Descriptor, manifest: Manifest, head: bytes) -> Descriptor:
    """Return the descriptor with the media type of the content; the programs keep the original type of the layer."""
    media_type = layer_media_type(detect_compression(head), manifest.media_type)
    return Descriptor(media_type, layer.digest, layer.size)
