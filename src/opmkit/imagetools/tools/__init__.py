"""Container tools: the ways in which images are read, built and pushed, behind one protocol.

Importing this package loads none of them; :func:`open_tool` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.progress import NO_PROGRESS, Progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.image_format import ImageFormat
    from opmkit.imagetools.layer import Limits
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryOptions
    from opmkit.imagetools.spec import ImageConfig
    from opmkit.imagetools.store import ImageStore
    from opmkit.imagetools.tools.engine import EngineTool
    from opmkit.imagetools.tools.registry import RegistryTool

NO_DAEMON = ("none", "registry")
"""The names of the tool that needs no container engine."""
ENGINES = ("docker", "podman", "buildah")


class InspectedImage(Protocol):
    """What every tool tells of an image without reading its files."""

    @property
    def config(self) -> ImageConfig:
        """What the image runs."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """The configuration's labels."""
        ...

    @property
    def annotations(self) -> Mapping[str, str]:
        """The manifest's annotations; an engine may know none."""
        ...


class ContainerTool(Protocol):
    """What is done with images. Every method may be called from several threads and raises ImageToolsErrors.

    A reference to an image index is one to the image for a platform of the tool's choice. Without ``limits`` the bounds
    are those of :mod:`opmkit.imagetools.layer`, in memory or on disk.
    """

    name: str

    @property
    def storage(self) -> str:
        """Description of the place where images are that were built but not pushed."""
        ...

    def digest(self, reference: ImageReference) -> str:
        """A digest that two names share if and only if they name the same image now; raises NotFound."""
        ...

    def inspect(self, reference: ImageReference) -> InspectedImage:
        """The image's configuration with its labels."""
        ...

    def read_tree(
        self, source: ImageReference, prefixes: Sequence[str], limits: Limits | None = None
    ) -> dict[str, bytes]:
        """The files at or under the prefixes, by path."""
        ...

    def extract(
        self, source: ImageReference, destination: Path, prefixes: Sequence[str] = ("",), limits: Limits | None = None
    ) -> None:
        """Write the files of the image at or under the prefixes below ``destination``."""
        ...

    def copy_file(self, source: ImageReference, path: str, destination: Path, limits: Limits | None = None) -> bool:
        """Copy one file out; whether there is such a file."""
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
        """Build an image on ``base``, or on nothing, and put it under these names.

        It goes where the tool keeps images, or with ``push`` to the registries of its names. The digest that it has
        under them; empty if it isn't known before the image is pushed.
        """
        ...


def open_tool(
    name: str, *, options: RegistryOptions, store: ImageStore, image_format: ImageFormat | None = None, workers: int = 4
) -> RegistryTool | EngineTool:
    """The tool ``none`` (also spelled ``registry``), ``docker``, ``podman`` or ``buildah``.

    ``image_format`` is the format of the images that it builds, by default that of OCI, for docker its own.
    ``workers`` blobs are moved at a time. Raises ImageToolsError for other names, and for what a tool can't do.
    """
    if name in NO_DAEMON:
        from opmkit.imagetools.image_format import ImageFormat
        from opmkit.imagetools.registry import RegistryClient
        from opmkit.imagetools.tools.registry import RegistryTool

        return RegistryTool(
            RegistryClient(options), store, image_format=image_format or ImageFormat.OCI, workers=workers
        )
    if name in ENGINES:
        from opmkit.imagetools.tools.open_engine import open_engine

        return open_engine(name, options, store, image_format)
    raise ImageToolsError(
        f'unknown container tool "{name}"',
        hint=f"use one of: none (no container engine required), {', '.join(ENGINES)}",
    )
