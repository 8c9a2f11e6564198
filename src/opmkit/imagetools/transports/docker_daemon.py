"""Read and write images of a docker daemon, as the archives of ``docker save`` and ``docker load``."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import requests
from docker.errors import DockerException
from docker.errors import NotFound as DockerNotFound

from opmkit.core.files import disk_errors
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.imagetools.archive import TarArchive, TarWriter, read_docker_archive, write_docker_archive
from opmkit.imagetools.engines.docker import connect
from opmkit.imagetools.engines.engine import single_line
from opmkit.imagetools.errors import EngineError, InvalidReference, NotFound
from opmkit.imagetools.layer import DISK_LIMITS, LimitTracker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.image import Image
    from opmkit.imagetools.reference import DaemonReference
    from opmkit.imagetools.spec import Descriptor
    from opmkit.imagetools.uncompressed import UncompressedImage


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
