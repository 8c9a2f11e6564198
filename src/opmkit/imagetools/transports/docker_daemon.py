"""Images of a docker daemon, by the archives that ``docker save`` and ``docker load`` move."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import requests
from docker.errors import DockerException
from docker.errors import NotFound as NotThere

from opmkit.imagetools.archive import TarArchive, TarWriter, read_docker_archive, write_docker_archive
from opmkit.imagetools.engines.docker import connect
from opmkit.imagetools.engines.errors import one_line
from opmkit.imagetools.errors import EngineError, InvalidReference, NotFound
from opmkit.imagetools.layer import DISK_LIMITS, LimitTracker
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.store.disk import disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.image import Image
    from opmkit.imagetools.reference import DaemonReference
    from opmkit.imagetools.spec import Descriptor
    from opmkit.imagetools.uncompressed import UncompressedImage


def read_from_daemon(reference: DaemonReference) -> UncompressedImage:
    """The image, taken from the daemon into an unnamed temporary file.

    Raises EngineUnavailable, EngineError, NotFound, and what read_docker_archive does.
    """
    tracker = LimitTracker(DISK_LIMITS)
    spool = _temporary_file()
    try:
        with closing(connect(os.environ)) as client, _reported(reference), disk_errors(Path(tempfile.gettempdir())):
            for chunk in client.get_image(str(reference.reference or reference.name)):
                tracker.add("total_bytes", len(chunk), str(reference))
                spool.write(chunk)
        spool.seek(0)
        return read_docker_archive(TarArchive(spool, str(reference)))
    except BaseException:
        spool.close()
        raise


def load_into_daemon(image: Image, reference: DaemonReference, *, progress: Progress = NO_PROGRESS) -> Descriptor:
    """Make the daemon have an image under a name; the descriptor of what reading it gives.

    Raises EngineUnavailable, EngineError, InvalidReference for an ID, and what write_docker_archive does.
    """
    name = reference.reference
    if name is None:
        raise InvalidReference(f"{reference}: an image gets a name, not an ID", hint="write docker-daemon:NAME:TAG")
    with closing(connect(os.environ)) as client, _temporary_file() as spool:
        writer = TarWriter(spool)
        written = write_docker_archive(image, writer, name, progress=progress)
        writer.finish()
        spool.seek(0)
        with _reported(reference):
            for answer in client.load_image(spool):
                if "error" in answer:
                    said = one_line(str(answer["error"]))
                    raise EngineError(f"{reference}: docker can't load it: {said}", hint="see the daemon's log")
    return written


def _temporary_file() -> BinaryIO:
    return cast("BinaryIO", tempfile.TemporaryFile(prefix="opm-docker-"))


@contextmanager
def _reported(reference: DaemonReference) -> Iterator[None]:
    """Turn what the SDK raises into errors that name the image."""
    try:
        yield
    except NotThere as error:
        raise NotFound(
            f"{reference}: the docker daemon has no such image", hint="'docker images' lists those that it has"
        ) from error
    except (DockerException, requests.RequestException) as error:
        raise EngineError(
            f"{reference}: docker: {one_line(str(error))}", hint="see whether the daemon is up"
        ) from error
