"""Choices for ``spec.relatedImages`` when images are pinned."""

from __future__ import annotations

from enum import StrEnum


class RelatedImagesMode(StrEnum):
    """A change of ``spec.relatedImages``."""

    COMPLETE = "complete"
    """Create the section, or add the images that it lacks."""
    CREATE = "create"
    """Create the section unless there is one."""
    KEEP = "keep"
    """Pin its images only."""
