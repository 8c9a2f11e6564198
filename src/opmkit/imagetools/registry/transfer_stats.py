"""Count of the bytes that a client transfers."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from opmkit.core.progress import NO_TRANSFERS, TransferObserver


@dataclass(frozen=True, slots=True)
class TransferStats:
    """Bytes of bodies read from and written to the network, without headers but including failed attempts."""

    read: int = 0
    written: int = 0


class TransferCounter:
    """A thread-safe counter of transferred bytes."""

    def __init__(self, observer: TransferObserver = NO_TRANSFERS) -> None:
        """Start from zero, and report each count to ``observer``."""
        self._observer = observer
        self._stats = TransferStats()
        self._lock = threading.Lock()

    @property
    def stats(self) -> TransferStats:
        """The current counts."""
        return self._stats

    def count(self, *, read: int = 0, written: int = 0) -> None:
        """Add to the counts."""
        with self._lock:
            self._stats = TransferStats(self._stats.read + read, self._stats.written + written)
        self._observer.transferred(read + written)
