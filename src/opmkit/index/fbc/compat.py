"""Which release of the reference a result is like, where releases differ."""

from __future__ import annotations

from enum import StrEnum


class Compat(StrEnum):
    """The newest release that there is, or the one of this name."""

    NEWEST = "newest"
    OPM_1_26 = "opm-1.26"
