"""New index images that a container engine builds, and keeps in its own storage."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.imagetools.epoch import source_date_epoch
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.reference import parse_image_reference
from opmkit.index.errors import IndexMoved
from opmkit.index.image.base import BASE_NAME, DEFAULT_BINARY_IMAGE, SCRATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.progress import Progress
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.tools import InspectedImage
    from opmkit.imagetools.tools.engine import EngineTool
    from opmkit.index.image.content import Content

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineBuild:
    """The build of a new index under ``references`` in an engine.

    The image is layered on ``binary_image``, else on the base that the index to start from names as its own, else on
    the default one: an engine can't take a layer off an image, and on that the image would grow each time.
    """

    engine: EngineTool
    references: Sequence[ImageReference]
    binary_image: str | None = None

    def run(self, content: Content, old: InspectedImage | None, progress: Progress) -> None:
        """Build an image with the content; ``old`` is the index that this started from."""
        self.engine.build(content.build_spec(source_date_epoch()), self.base(old), self.references, progress=progress)

    def published(self) -> dict[ImageReference, str]:
        """The digests that the tags name in their registries now, "" for none; without those that can't be asked."""
        digests = {}
        for reference in self.references:
            try:
                digests[reference] = self.engine.published(reference)
            except ImageToolsError as error:
                _log.warning("%s; so its tag is moved whatever it names by then", error.message)
        return digests

    def push(self, before: dict[ImageReference, str], progress: Progress) -> str:
        """Push the image from the engine; the digest that it has in its registry.

        Raises IndexMoved for a tag that names something else than ``before``. An engine asks nobody before it moves a
        tag: what another writer does from here on isn't seen.
        """
        for reference, digest in before.items():
            now = self.engine.published(reference)
            if now != digest:
                raise IndexMoved(reference, f"another writer moved the tag to {now or 'nothing'}")
        return self.engine.push(self.references, progress=progress)

    def base(self, old: InspectedImage | None) -> ImageReference | None:
        """What the image is layered on; None is nothing. ``old`` is the index to start from."""
        recorded = old.annotations.get(BASE_NAME) if old else None
        name = self.binary_image or recorded or DEFAULT_BINARY_IMAGE
        return None if name == SCRATCH else parse_image_reference(name)
