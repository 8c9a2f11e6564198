"""Operations on images in registries, layouts, archives, engines and the embedded store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.api.session import Session
from opmkit.core.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.core.progress import Progress
    from opmkit.imagetools.description import ImageDescription
    from opmkit.imagetools.store.images import PrunedStore, StoredImage


class ImageOperations(Session):
    """Operations on images."""

    def list_stored_images(self) -> list[StoredImage]:
        """Return the images in the embedded store, sorted by name.

        Raises:
            ImageToolsError: The store is damaged.
            DiskError: The store cannot be read.
        """
        return self._store.list()

    def inspect_image(self, image: str) -> ImageDescription:
        """Return the digest, platforms, labels, layers and command of an image, and whether it contains its program.

        Layers are not pulled; their beginning is read, to look for the program.

        Args:
            image: Name of an image in a registry, or a place such as ``oci:DIR:TAG`` or ``docker-archive:FILE``.

        Raises:
            ImageToolsError: The image does not exist, or cannot be read.
        """
        from opmkit.bundle.source import parse_image
        from opmkit.imagetools.description import describe_image

        loaded = self._registry_tool.load(parse_image(image))
        return describe_image(image, loaded, self._registry_tool)

    def pull_image(self, image: str, *, progress: Progress = NO_PROGRESS) -> str:
        """Copy an image from its registry to the embedded store.

        Args:
            image: Name of an image in a registry.
            progress: Receiver of progress reports.

        Returns:
            The name with its digest.

        Raises:
            ImageToolsError: The image does not exist, or cannot be read.
        """
        from opmkit.bundle.source import parse_registry_image
        from opmkit.imagetools.image import load_image_or_index

        reference = parse_registry_image(image)
        loaded = load_image_or_index(*self._client.open_image(reference))
        return f"{reference}@{self._registry_tool.save(loaded, reference, progress=progress).digest}"

    def push_image(self, image: str, destination: str = "", *, progress: Progress = NO_PROGRESS) -> str:
        """Copy an image from the embedded store to a registry, which receives only missing blobs.

        Args:
            image: Name of an image in the store.
            destination: Image to write, as for `copy_image`; by default in the registry of the name.
            progress: Receiver of progress reports.

        Returns:
            The name of the written image, with its digest if it can be named by that.

        Raises:
            ImageToolsError: The store does not have the image, or it cannot be written.
        """
        from opmkit.bundle.source import parse_image
        from opmkit.core.hints import Hint
        from opmkit.imagetools.errors import NotFound
        from opmkit.imagetools.hint_terms import ImageOperation
        from opmkit.imagetools.image import load_image_or_index
        from opmkit.imagetools.reference import Reference
        from opmkit.imagetools.transports import pin_reference

        reference = Reference.parse(image)
        try:
            stored = load_image_or_index(self._store.repository(reference.name), reference.identifier)
        except NotFound as error:
            raise NotFound(
                f"{reference}: not found in the image store {self._store.layout.path}",
                hint=Hint("list the stored images with {}", ImageOperation.LIST_STORED_IMAGES),
            ) from error
        target = parse_image(destination or image)
        return pin_reference(target, self._registry_tool.push(stored, target, progress=progress).digest)

    def copy_image(
        self,
        source: str,
        destination: str,
        *,
        platforms: Sequence[str] = (),
        require_all: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> str:
        """Copy an image between registries, layouts, archives, container engines and the embedded store.

        The copy has the same digest if the source and the destination store manifests.

        Args:
            source: Image to read, as for `inspect_image`.
            destination: Image to write.
            platforms: Platforms to copy, such as ``linux/arm64``; by default all that the destination supports.
            require_all: Raise an error if the destination cannot hold all platforms.
            progress: Receiver of progress reports.

        Returns:
            The name of the written image, with its digest if it can be named by that.

        Raises:
            ImageToolsError: The image or a platform does not exist, or the image cannot be written.
        """
        from opmkit.bundle.source import parse_image
        from opmkit.imagetools.image import select_platforms
        from opmkit.imagetools.spec import Platform
        from opmkit.imagetools.transports import check_platform_support, pin_reference

        target = parse_image(destination)
        image = self._registry_tool.load(parse_image(source))
        if platforms:
            image = select_platforms(image, list(map(Platform.parse, platforms)), source)
        if require_all:
            check_platform_support(image, target)
        return pin_reference(target, self._registry_tool.push(image, target, progress=progress).digest)

    def remove_images(self, images: Sequence[str]) -> None:
        """Remove images from the embedded store; `prune_store` frees their space.

        Args:
            images: Names with tags or digests.

        Raises:
            ImageToolsError: The store does not have an image.
        """
        from opmkit.imagetools.reference import Reference

        for image in images:
            self._store.remove(Reference.parse(image))

    def prune_store(self, *, older_than: float = 3600.0) -> PrunedStore:
        """Delete unused blobs from the embedded store, and temporary files of killed processes.

        Args:
            older_than: Seconds; blobs that were used within this time remain, because other processes may need them.

        Raises:
            ImageToolsError: The store is damaged.
            DiskError: The store cannot be changed.
        """
        import tempfile
        from pathlib import Path

        from opmkit.core.scratch import remove_stale_directories
        from opmkit.imagetools.store.images import PrunedStore

        freed = self._store.prune(grace=older_than)
        return PrunedStore(freed, remove_stale_directories(Path(tempfile.gettempdir())))
