"""Build index images in a container engine."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.core.epoch import source_date_epoch
from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.imagetools.build_spec import SCRATCH
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.reference import parse_image_reference
from opmkit.index.errors import IndexMoved
from opmkit.index.image.base import BASE_NAME, DEFAULT_BINARY_IMAGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.core.progress import Progress
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.tools import InspectedImage
    from opmkit.imagetools.tools.engine import EngineTool
    from opmkit.index.image.content import Content

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineBuild:
    """The build of an index image with the names ``references`` in a container engine.

    The base is ``binary_image``, or else the base recorded in the old index image, or else the default. It is not the
    old image itself, which would grow with each update, since an engine cannot remove layers.
    """

    engine: EngineTool
    references: Sequence[ImageReference]
    binary_image: str | None = None

    def run(self, content: Content, old: InspectedImage | None, progress: Progress) -> None:
        """Build an image with the content; ``old`` is the index image that it was extracted from."""
        self.engine.build(content.build_spec(source_date_epoch()), self.base(old), self.references, progress=progress)

    def published(self) -> dict[ImageReference, str]:
        """Return the digest of each tag in its registry, "" if it does not exist.

        A tag is omitted, with a warning, if its registry cannot be asked.
        """
        digests = {}
        for reference in self.references:
            try:
                digests[reference] = self.engine.registry_digest(reference)
            except (ImageToolsError, LimitExceeded, DiskError) as error:
                _log.warning("%s: the tag will be moved without checking it", error.message)
        return digests

    def push(self, before: Mapping[ImageReference, str], progress: Progress) -> str:
        """Push the image from the engine, and return its digest in the registry.

        The tags are compared with ``before`` first. Engines move tags unconditionally, so a tag that another writer
        moves after the comparison is overwritten.

        Raises:
            IndexMoved: a tag does not have the digest in ``before``.
        """
        for reference, digest in before.items():
            current = self.engine.registry_digest(reference)
            if current != digest:
                raise IndexMoved(reference, f"another writer moved the tag to {current or 'nothing'}")
        return self.engine.push(self.references, progress=progress)

    def base(self, old: InspectedImage | None) -> ImageReference | None:
        """Return the base of the image, None for an empty one; ``old`` is the old index image."""
        recorded = old.annotations.get(BASE_NAME) if old else None
        name = self.binary_image or recorded or DEFAULT_BINARY_IMAGE
        return None if name == SCRATCH else parse_image_reference(name)
