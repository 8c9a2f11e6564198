"""OCI image layouts on disk, and the embedded image store, which is such a layout."""

from opmkit.imagetools.store.images import ImageStore, StoredImage
from opmkit.imagetools.store.layout import Layout
from opmkit.imagetools.store.repository import LayoutRepository

__all__ = ["ImageStore", "Layout", "LayoutRepository", "StoredImage"]
