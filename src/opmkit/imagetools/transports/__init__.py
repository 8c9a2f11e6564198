"""Reading and writing of images by local references: layouts, archives, the store and engines."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from opmkit.core.hints import Hint
from opmkit.core.progress import NO_PROGRESS, Progress
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
from opmkit.imagetools.hint_terms import ImageSetting
from opmkit.imagetools.image import Image
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
    from opmkit.imagetools.repository import ImageSource
    from opmkit.imagetools.spec import Descriptor
    from opmkit.imagetools.store import ImageStore

_log = logging.getLogger(__name__)

SinglePlatformReference = DockerArchiveReference | DaemonReference | StorageReference
"""References to places that hold images for one platform only and do not name them by digest."""


def pin_reference(reference: ImageReference, digest: str) -> str:
    """Return the reference as text, with the digest if it can name an image at this place."""
    return str(reference) if isinstance(reference, SinglePlatformReference) else f"{reference}@{digest}"


def check_platform_support(image: Image | ImageIndex, reference: ImageReference) -> None:
    """Raise UnsupportedImage if the place cannot hold all platforms of the image."""
    if isinstance(reference, SinglePlatformReference) and not isinstance(image, Image):
        raise UnsupportedImage(
            f"{reference}: only one platform is supported here", hint=Hint("select one with {}", ImageSetting.PLATFORM)
        )


def open_local(reference: LocalReference, store: ImageStore) -> tuple[ImageSource, str]:
    """Open the place that the reference names; return it and the identifier of the image in it."""
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
            from opmkit.imagetools.transports.storage import read_from_daemon

            return read_from_daemon(reference), ""
        case StorageReference():
            from opmkit.imagetools.transports.storage import read_from_storage

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
    """Write an image to the place that the reference names and return its descriptor there.

    An existing archive is replaced. A failure, raised as ImageToolsError, leaves the place unchanged.

    Args:
        image: The image or index.
        reference: The reference.
        store: The embedded image store, for ``store:`` references.
        replacing: The digest that the tag must currently name, for layouts and the store, see `copy_image`.
        workers: The number of concurrent transfers.
        progress: A receiver of progress reports.
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
            with compressed_layers(image, progress) as compressed, new_archive(reference.path) as writer:
                return write_oci_archive(compressed, writer, reference.name, progress=progress)
        case _:
            return _put_single_platform(_select_image(image, reference), reference, progress)


def _put_single_platform(image: Image, reference: SinglePlatformReference, progress: Progress) -> Descriptor:
    match reference:
        case DockerArchiveReference():
            if reference.position is not None:
                hint = "write docker-archive:FILE:NAME:TAG"
                raise InvalidReference(f"{reference}: cannot write to a position in an archive", hint=hint)
            with new_archive(reference.path) as writer:
                return write_docker_archive(image, writer, reference.reference, progress=progress)
        case DaemonReference():
            from opmkit.imagetools.transports.storage import load_into_daemon

            return load_into_daemon(image, reference, progress=progress)
        case StorageReference():
            from opmkit.imagetools.transports.storage import load_into_storage

            return load_into_storage(image, reference, progress=progress)


def _select_image(image: Image | ImageIndex, reference: SinglePlatformReference) -> Image:
    """Select one platform, with a warning."""
    if isinstance(image, Image):
        return image
    selected = image.select()
    _log.warning("%s: only one platform is supported here; writing %s", reference, selected.config.platform)
    return selected
