"""Bounds on what reading layers may cost, and the meter that holds them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from opmkit.imagetools.errors import LimitExceeded


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one reading of an image's layers, all of them together.

    ``total_bytes`` counts what the layers decompress to, ``kept_bytes`` the paths and content that
    stay, in memory or on disk, ``file_bytes`` one such file; ``path_length`` is in bytes, as is ``name_length`` of each
    component, ``path_depth`` in components.
    """

    total_bytes: int = 16 << 30
    kept_bytes: int = 16 << 30
    file_bytes: int = 8 << 30
    entries: int = 300_000
    path_length: int = 2048
    name_length: int = 255
    path_depth: int = 128


ON_DISK = Limits()
IN_MEMORY = Limits(total_bytes=4 << 30, kept_bytes=256 << 20, file_bytes=64 << 20)

_LABELS = {
    "total_bytes": "decompressed bytes",
    "kept_bytes": "bytes of paths and content",
    "file_bytes": "bytes in a file",
    "entries": "entries",
    "path_length": "bytes in a path",
    "name_length": "bytes in a name",
    "path_depth": "directories in a path",
}


@dataclass(slots=True)
class Meter:
    """What a reading has cost so far."""

    limits: Limits
    spent: Counter[str] = field(default_factory=Counter)

    def spend(self, name: str, amount: int, subject: str) -> None:
        """Count ``amount`` towards the bound ``name``; raises LimitExceeded."""
        self.spent[name] += amount
        self.check(name, self.spent[name], subject)

    def check(self, name: str, amount: int, subject: str) -> None:
        """Raise LimitExceeded, naming the subject and the bound, if the amount is above the bound ``name``."""
        bound: int = getattr(self.limits, name)
        if amount > bound:
            raise LimitExceeded(
                f"{subject}: more {_LABELS[name]} than the bound of {bound}",
                hint="it is not what it seems, or far larger than is sensible: look at how it was made",
            )
