"""Limits on the resources that reading layers may use."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from opmkit.core.errors import LimitExceeded

if TYPE_CHECKING:
    from opmkit.imagetools.repository import BlobOpener
    from opmkit.imagetools.spec import Descriptor


class Limits(Struct, frozen=True):
    """Limits for reading the layers of an image, all of them together.

    ``total_bytes`` counts decompressed bytes, ``extracted_bytes`` the paths and content that are held in memory or
    written to disk. ``file_bytes`` limits one file, ``path_length`` a path and ``name_length`` a component of it, all
    in bytes. ``path_depth`` limits the components of a path.
    """

    total_bytes: int = 16 << 30
    extracted_bytes: int = 16 << 30
    file_bytes: int = 8 << 30
    entries: int = 300_000
    path_length: int = 2048
    name_length: int = 255
    path_depth: int = 128


DISK_LIMITS = Limits()
MEMORY_LIMITS = Limits(total_bytes=4 << 30, extracted_bytes=256 << 20, file_bytes=64 << 20)

_UNITS = {
    "total_bytes": "decompressed bytes",
    "extracted_bytes": "extracted bytes",
    "file_bytes": "bytes per file",
    "entries": "entries",
    "path_length": "bytes per path",
    "name_length": "bytes per file name",
    "path_depth": "path components",
}


class LimitTracker(Struct):
    """Resource usage counted against limits."""

    limits: Limits
    used: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, amount: int, subject: str) -> None:
        """Add to the usage of the limit ``name``; raise LimitExceeded, which names ``subject``, above it."""
        self.used[name] += amount
        self.check(name, self.used[name], subject)

    def check(self, name: str, amount: int, subject: str) -> None:
        """Raise LimitExceeded, which names ``subject``, if the amount is above the limit ``name``."""
        limit: int = getattr(self.limits, name)
        if amount > limit:
            raise LimitExceeded(
                f"{subject}: exceeds the limit of {limit} {_UNITS[name]}",
                hint="check the content for unexpected or oversized files",
            )


LayerSource = tuple["Descriptor", "BlobOpener"]
"""A layer's descriptor, and a function that opens its blob as a stream that is verified when read to the end."""


class Readable(Protocol):
    """A binary source that is read forward only."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        ...
