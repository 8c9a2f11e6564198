"""Container tools: the ways in which images are read, kept and pushed, behind one protocol.

Importing this package loads none of them; :func:`open_tool` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.progress import SILENT, Progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opmkit.imagetools.image import Image, MultiImage
    from opmkit.imagetools.layer import FoundFile, Limits
    from opmkit.imagetools.reference import ImageReference, LayoutReference, Reference
    from opmkit.imagetools.registry import RegistryOptions
    from opmkit.imagetools.repository import Repository
    from opmkit.imagetools.spec import Descriptor, Platform
    from opmkit.imagetools.store import ImageStore

NO_DAEMON = ("none", "registry")
"""The names of the tool that needs no container engine."""
_ENGINES = ("docker", "podman", "buildah")


class ContainerTool(Protocol):
    """What is done with images. Every method may be called from several threads and raises ImageToolsErrors.

    Where an image is asked for, a reference to an index gives the one that ImageIndex.select chooses.
    Without ``limits`` the bounds are those of :mod:`opmkit.imagetools.layer`, in memory or on disk.
    """

    name: str

    def resolve(self, reference: ImageReference) -> Descriptor:
        """The descriptor of what the reference names now; raises NotFound."""
        ...

    def inspect(self, reference: ImageReference, platform: Platform | None = None) -> Image:
        """The image: manifest and configuration with its labels, no layers."""
        ...

    def load(self, reference: ImageReference) -> Image | MultiImage:
        """The image with every platform it has; no layers."""
        ...

    def read_tree(
        self, source: ImageReference | Image, prefixes: Sequence[str], limits: Limits | None = None
    ) -> dict[str, bytes]:
        """The files at or under the prefixes, by path."""
        ...

    def extract(
        self,
        source: ImageReference | Image,
        destination: Path,
        prefixes: Sequence[str] = ("",),
        limits: Limits | None = None,
    ) -> None:
        """Write the files at or under the prefixes below ``destination``."""
        ...

    def find_file(self, image: Image, path: str, destination: Path, limits: Limits | None = None) -> FoundFile | None:
        """Copy one file out; where it is, layer 0 being the bottom one, or None if there is no such file."""
        ...

    def save(self, image: Image | MultiImage, reference: ImageReference, *, progress: Progress = SILENT) -> Descriptor:
        """Keep an image under a name, where this tool keeps images."""
        ...

    def push(
        self,
        image: Image | MultiImage,
        reference: ImageReference,
        *,
        replacing: str | None = None,
        progress: Progress = SILENT,
    ) -> Descriptor:
        """Send an image to the registry or layout that the reference names; its tag moves last.

        ``replacing`` is the digest that the tag is to be moved from, see :meth:`Repository.put_manifest`.
        """
        ...

    def destination(self, reference: Reference | LayoutReference) -> Repository:
        """The place that push sends to: a repository of the registry itself, no mirror, or a layout."""
        ...


def open_tool(name: str, *, options: RegistryOptions, store: ImageStore, workers: int = 4) -> ContainerTool:
    """The tool of that name: ``none``, also spelled ``registry``. ``workers`` blobs are moved at a time.

    Raises ImageToolsError for other names, those of container engines among them.
    """
    if name in NO_DAEMON:
        from opmkit.imagetools.registry import RegistryClient
        from opmkit.imagetools.tools.registry import RegistryTool

        return RegistryTool(RegistryClient(options), store, workers=workers)
    if name in _ENGINES:
        raise ImageToolsError(
            f"the container tool {name} is not supported by this version yet",
            advice="use none: it needs no container engine, and builds and pushes the same images",
        )
    raise ImageToolsError(f"{name!r} is no container tool that is known here", advice="use none")
