"""What an image is made of, whichever tool makes it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, overload

from opmkit.imagetools.epoch import rfc3339
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.spec import ConfigChanges

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.imagetools.image import Image, ImageIndex
    from opmkit.imagetools.layer import Layer

SCRATCH = "scratch"
"""What a Dockerfile calls the base that has nothing in it."""
_ROOT = "rootfs"


@dataclass(frozen=True, slots=True)
class BuildSpec:
    """Files in one layer on a base, and what changes of the base's configuration.

    ``labels`` are merged over those of the base but for ``removed_labels``, ``exposed_ports`` (``50051/tcp``) added to
    its own; None leaves ``entrypoint`` and ``cmd`` as they are. ``annotations`` go on the manifest, in OCI's format
    only. ``created`` is in seconds of Unix time. What the base has in the directories ``hidden`` is not in the image.
    An engine neither drops nor hides anything: what it builds on is a base that has none of it.
    """

    files: tuple[LayerFile, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    removed_labels: frozenset[str] = frozenset()
    hidden: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    exposed_ports: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    created: int = 0
    created_by: str = "opmkit"

    @overload
    def on(self, base: Image, directory: Path) -> Image: ...

    @overload
    def on(self, base: Image | ImageIndex, directory: Path) -> Image | ImageIndex: ...

    def on(self, base: Image | ImageIndex, directory: Path) -> Image | ImageIndex:
        """The image on ``base``, in its format, as a value; ``directory`` receives the layer's file.

        The same files and base give the same digest. Raises InvalidImage and StoreError as write_layer does.
        """
        layer = write_layer(self.files, directory, hidden=self.hidden, mtime=self.created)
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
        """Write the build context, a tar archive with a Dockerfile, for an engine to build the same on ``base``.

        Labels and annotations aren't in the Dockerfile: its quoting differs between engines, and their APIs take them.
        """
        files = [replace(file, path=f"{_ROOT}/{file.path}") for file in self.files]
        dockerfile = LayerFile("Dockerfile", self._dockerfile(base).encode())
        return write_layer([dockerfile, *files], directory, mtime=self.created, compression="none")

    def _dockerfile(self, base: str) -> str:
        lines = [f"FROM {base}", f"COPY {_ROOT}/ /"]
        lines += [f"EXPOSE {port}" for port in self.exposed_ports]
        for instruction, words in (("ENTRYPOINT", self.entrypoint), ("CMD", self.cmd)):
            if words is not None:
                lines.append(f"{instruction} {json.dumps(words)}")
        return "\n".join(lines) + "\n"
