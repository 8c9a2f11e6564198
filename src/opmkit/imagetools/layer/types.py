"""Type aliases and protocols of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from opmkit.imagetools.repository import BlobOpener
    from opmkit.imagetools.spec import Descriptor

LayerSource = tuple["Descriptor", "BlobOpener"]
"""A layer's descriptor, and a function that opens its blob as a stream that is verified when read to the end."""


class Readable(Protocol):
    """A binary source that is read forward only."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        ...
