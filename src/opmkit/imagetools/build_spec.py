"""Specification of an image to build, independent of the tool that builds it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, overload

from msgspec import Struct
from msgspec.structs import replace

from opmkit.core.environment import rfc3339
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.spec import ConfigChanges

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.imagetools.image import Image, ImageIndex
    from opmkit.imagetools.layer import Layer

_ROOT = "rootfs"


class BuildSpec(Struct, frozen=True):
    """The files of one layer on a base image, and changes to the configuration of that image.

    ``labels`` are merged over those of the base without ``removed_labels``. ``exposed_ports`` (``50051/tcp``) are added
    to those of the base. ``entrypoint`` and ``cmd`` replace those of the base unless they are None. ``annotations`` are
    added to manifests in OCI format. ``created`` is a Unix time in seconds. ``opaque_directories`` hide what the base
    contains in these directories.

    Engines ignore ``removed_labels`` and ``opaque_directories``; their base must not contain such labels or files.
    """

    files: tuple[LayerFile, ...]
    labels: Mapping[str, str] = {}
    removed_labels: frozenset[str] = frozenset()
    opaque_directories: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    exposed_ports: tuple[str, ...] = ()
    annotations: Mapping[str, str] = {}
    created: int = 0
    created_by: str = "opmkit"

    @overload
    def build_on(self, base: Image, directory: Path) -> Image: ...

    @overload
    def build_on(self, base: Image | ImageIndex, directory: Path) -> Image | ImageIndex: ...

    def build_on(self, base: Image | ImageIndex, directory: Path) -> Image | ImageIndex:
        """Return the image on ``base``, in the same format; the layer is written to ``directory``.

        The same files and base give the same digest.

        Raises:
            InvalidImage: A path is invalid in a layer.
            DiskError: A file cannot be read or written.
        """
        layer = write_layer(self.files, directory, opaque_directories=self.opaque_directories, mtime=self.created)
        changes = ConfigChanges(
            labels=self.labels,
            removed_labels=self.removed_labels,
            entrypoint=self.entrypoint,
            cmd=self.cmd,
            exposed_ports=self.exposed_ports,
        )
        return base.append(
            [layer],
            changes,
            annotations=self.annotations,
            created=rfc3339(self.created),
            created_by=self.created_by,
        )

    def write_context(self, base: str, directory: Path) -> Layer:
        """Write a build context, a tar archive with a Dockerfile, that makes an engine build this image on ``base``.

        Labels and annotations are not in the Dockerfile, whose quoting differs between engines, but passed to the API.
        """
        files = [replace(file, path=f"{_ROOT}/{file.path}") for file in self.files]
        dockerfile = LayerFile("Dockerfile", self._dockerfile(base).encode())
        return write_layer([dockerfile, *files], directory, mtime=self.created, compressed=False)

    def _dockerfile(self, base: str) -> str:
        lines = [f"FROM {base}", f"COPY {_ROOT}/ /"]
        lines += [f"EXPOSE {port}" for port in self.exposed_ports]
        for instruction, words in (("ENTRYPOINT", self.entrypoint), ("CMD", self.cmd)):
            if words is not None:
                lines.append(f"{instruction} {json.dumps(words)}")
        return "\n".join(lines) + "\n"
