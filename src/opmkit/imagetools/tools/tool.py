"""The interface of container tools, with or without a container engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from opmkit.core.progress import NO_PROGRESS, Progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.layer import Limits
    from opmkit.imagetools.platform_equality import ComparedContent
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.spec import ImageConfig


class InspectedImage(Protocol):
    """The metadata of an image, which every tool can read without reading its files."""

    @property
    def config(self) -> ImageConfig:
        """The image configuration."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the configuration."""
        ...

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the manifest, empty if an engine does not report them."""
        ...


class ContainerTool(Protocol):
    """A tool that reads, builds and pushes images. All methods are thread-safe and raise ImageToolsErrors.

    A reference to an image index stands for the image of the tool's platform. ``limits`` are by default MEMORY_LIMITS
    or DISK_LIMITS of :mod:`opmkit.imagetools.layer`.
    """

    name: str

    @property
    def storage(self) -> str:
        """A description of the storage of images that were built but not pushed."""
        ...

    def digest(self, reference: ImageReference) -> str:
        """Return a digest that is equal for all names of the same image; raise NotFound."""
        ...

    def pin(self, reference: ImageReference, digest: str) -> ImageReference:
        """Return a name by which this tool reads the image with a digest of `digest`, even if a tag is moved."""
        ...

    def inspect(self, reference: ImageReference) -> InspectedImage:
        """Return the metadata of an image."""
        ...

    def require_equal_platforms(self, reference: ImageReference, content: ComparedContent) -> ImageReference:
        """Return a name of the image to read, after checking that the images for all platforms have equal content.

        What is read by that name is what was checked, as far as the place can name images by digest.
        """
        ...

    def read_tree(
        self, source: ImageReference, prefixes: Sequence[str], limits: Limits | None = None
    ) -> dict[str, bytes]:
        """Return the contents of the files at or below the prefixes, by path."""
        ...

    def extract(
        self, source: ImageReference, destination: Path, prefixes: Sequence[str] = ("",), limits: Limits | None = None
    ) -> None:
        """Extract the files at or below the prefixes into ``destination``."""
        ...

    def copy_file(self, source: ImageReference, path: str, destination: Path, limits: Limits | None = None) -> bool:
        """Copy one file to ``destination``; return whether it exists in the image."""
        ...

    def build(
        self,
        spec: BuildSpec,
        base: ImageReference | None,
        references: Sequence[ImageReference],
        *,
        push: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> str:
        """Build an image on ``base``, or from scratch, and store it with these names, or push it to their registries.

        Returns:
            The digest of the image, or "" if it is only known once the image has been pushed.
        """
        ...
