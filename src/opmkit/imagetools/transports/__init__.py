"""The places on this machine that references name: where an image is read from, and how one gets there."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from opmkit.imagetools.archive import (
    ArchivedLayout,
    TarArchive,
    new_archive,
    read_docker_archive,
    write_docker_archive,
    write_oci_archive,
)
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import InvalidReference, UnsupportedImage
from opmkit.imagetools.hints import Hint, Setting
from opmkit.imagetools.image import Image
from opmkit.imagetools.progress import NO_PROGRESS, Progress
from opmkit.imagetools.reference import (
    DaemonReference,
    DockerArchiveReference,
    LayoutReference,
    OciArchiveReference,
    StorageReference,
    StoreReference,
)
from opmkit.imagetools.store import LayoutRepository
from opmkit.imagetools.store.reader import LayoutReader
from opmkit.imagetools.uncompressed import compressed_layers

if TYPE_CHECKING:
    from opmkit.imagetools.image import ImageIndex
    from opmkit.imagetools.reference import ImageReference, LocalReference
    from opmkit.imagetools.repository import Source
    from opmkit.imagetools.spec import Descriptor
    from opmkit.imagetools.store import ImageStore

_log = logging.getLogger(__name__)

SinglePlatformReference = DockerArchiveReference | DaemonReference | StorageReference
"""A place that can't hold an image for several platforms, and in which an image has no digest to name it by."""


def pin_reference(reference: ImageReference, digest: str) -> str:
    """The reference as text, with the digest of the image that it was given where that can name it."""
    return str(reference) if isinstance(reference, SinglePlatformReference) else f"{reference}@{digest}"


def check_platform_support(image: Image | ImageIndex, reference: ImageReference) -> None:
    """Raise UnsupportedImage where the place that the reference names can't hold all platforms of the image."""
    if isinstance(reference, SinglePlatformReference) and not isinstance(image, Image):
        raise UnsupportedImage(
            f"{reference}: it can hold one platform only", hint=Hint("select one with {}", Setting.PLATFORM)
        )


def open_local(reference: LocalReference, store: ImageStore) -> tuple[Source, str]:
    """The place that the reference names, and what to ask it for; raises ImageToolsErrors."""
    match reference:
        case LayoutReference():
            return LayoutRepository(reference.path), reference.identifier
        case StoreReference():
            name = reference.reference
            return store.repository(name.name), name.identifier
        case OciArchiveReference():
            return LayoutReader(ArchivedLayout(TarArchive.open(reference.path))), reference.identifier
        case DockerArchiveReference():
            archive = TarArchive.open(reference.path)
            return read_docker_archive(archive, reference.reference, reference.position), ""
        case DaemonReference():
            from opmkit.imagetools.transports.docker_daemon import read_from_daemon

            return read_from_daemon(reference), ""
        case StorageReference():
            from opmkit.imagetools.transports.containers_storage import read_from_storage

            return read_from_storage(reference), ""


def put_local(
    image: Image | ImageIndex,
    reference: LocalReference,
    store: ImageStore,
    *,
    replacing: str | None = None,
    workers: int = 4,
    progress: Progress = NO_PROGRESS,
) -> Descriptor:
    """Put an image where the reference names, and give the descriptor by which it is known there.

    An archive is written whole: what was in the file is gone. ``replacing`` is for the places with tags that others
    move, see copy_image. Raises ImageToolsErrors; then the place is as it was.
    """
    match reference:
        case LayoutReference():
            target = LayoutRepository(reference.path)
            return copy_image(image, target, reference.tag, replacing=replacing, workers=workers, progress=progress)
        case StoreReference():
            name = reference.reference
            target = store.repository(name.name)
            return copy_image(image, target, name.tag, replacing=replacing, workers=workers, progress=progress)
        case OciArchiveReference():
            with compressed_layers(image, progress) as whole, new_archive(reference.path) as writer:
                return write_oci_archive(whole, writer, reference.name, progress=progress)
        case _:
            return _put_one(_only_image(image, reference), reference, progress)


def _put_one(image: Image, reference: SinglePlatformReference, progress: Progress) -> Descriptor:
    match reference:
        case DockerArchiveReference():
            if reference.position is not None:
                hint = "write docker-archive:FILE:NAME:TAG"
                raise InvalidReference(f"{reference}: an archive of one image is written", hint=hint)
            with new_archive(reference.path) as writer:
                return write_docker_archive(image, writer, reference.reference, progress=progress)
        case DaemonReference():
            from opmkit.imagetools.transports.docker_daemon import load_into_daemon

            return load_into_daemon(image, reference, progress=progress)
        case StorageReference():
            from opmkit.imagetools.transports.containers_storage import load_into_storage

            return load_into_storage(image, reference, progress=progress)


def _only_image(image: Image | ImageIndex, reference: SinglePlatformReference) -> Image:
    """The image for one platform where only one can be kept."""
    if isinstance(image, Image):
        return image
    chosen = image.select()
    _log.warning("%s holds one platform only: the image for %s goes there", reference, chosen.config.platform)
    return chosen
