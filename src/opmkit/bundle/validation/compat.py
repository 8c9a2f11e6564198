"""Compatibility with the results of the Go tools."""

from __future__ import annotations

from enum import Enum


class Compat(Enum):
    """Program whose results validation gives: opmkit, or a release of opm and operator-sdk including its defects."""

    OPMKIT = "opmkit"
    OPM_1_26 = "opm-1.26"
    NEWEST = "newest"


OPMKIT_ONLY = frozenset({Compat.OPMKIT})
RECENT = frozenset({Compat.OPMKIT, Compat.NEWEST})
GO_ONLY = frozenset({Compat.OPM_1_26, Compat.NEWEST})
ALL = frozenset(Compat)
