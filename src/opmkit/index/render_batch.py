"""Rendering of a batch of references by a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.imagetools.store.directory import cache_directory
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.migrate import MigrationLevel
from opmkit.index.render import RenderOptions, open_render_cache, render_settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.core.errors import OpmkitError
    from opmkit.imagetools.worker_options import WorkerOptions
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.rendering.image_template import ImageTemplate

CACHE = "bundles"
"""Name of the cache of rendered bundles in the embedded image store."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The blobs of a reference, or the error, and the warnings about it."""

    result: Blobs | OpmkitError
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenderTask:
    """Renders references with the tool and the cache of the process that it runs in; see `RenderOptions`."""

    worker: WorkerOptions
    level: MigrationLevel = MigrationLevel.NONE
    image_template: ImageTemplate | None = None
    compat: Compat = Compat.NEWEST
    use_cache: bool = True

    def __call__(self, references: Sequence[str]) -> list[Rendered]:
        """Return one result per reference, in their order."""
        tool, warnings, results = self.worker.tool(), [], []
        options = RenderOptions(
            level=self.level,
            image_template=self.image_template,
            cache=open_render_cache(cache_directory(CACHE)) if self.use_cache else None,
            warn=lambda warning: warnings.append(warning),
            compat=self.compat,
        )
        for _, result in render_settled(lambda: tool, references, options):
            results.append(Rendered(result, tuple(warnings)))
            warnings.clear()
        return results
