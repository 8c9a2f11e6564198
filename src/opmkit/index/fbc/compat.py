"""The releases of Go opm whose results catalogs can match, where releases differ."""

from __future__ import annotations

from enum import StrEnum


class Compat(StrEnum):
    """A release of Go opm: the newest, or the one of this name."""

    NEWEST = "newest"
    OPM_1_26 = "opm-1.26"
