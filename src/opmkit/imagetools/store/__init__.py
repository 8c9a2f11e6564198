"""OCI image layouts on disk, and the embedded image store, which is such a layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from opmkit.imagetools.store.images import ImageStore, StoredImage
    from opmkit.imagetools.store.layout import Layout
    from opmkit.imagetools.store.repository import LayoutRepository

__all__ = ["ImageStore", "Layout", "LayoutRepository", "StoredImage"]

__getattr__ = lazy_exports(
    __name__,
    {
        "images": ("ImageStore", "StoredImage"),
        "layout": ("Layout",),
        "repository": ("LayoutRepository",),
    },
)
