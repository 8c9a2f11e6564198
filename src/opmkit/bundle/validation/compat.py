"""Programs whose results and rules apply: releases of the Go tools, and versions of OLM."""

from __future__ import annotations

from enum import Enum, StrEnum


class Compat(Enum):
    """Program whose results validation gives: opmkit, or a release of opm and operator-sdk including its defects."""

    OPMKIT = "opmkit"
    OPM_1_26 = "opm-1.26"
    NEWEST = "newest"


OPMKIT_ONLY = frozenset({Compat.OPMKIT})
RECENT = frozenset({Compat.OPMKIT, Compat.NEWEST})
GO_ONLY = frozenset({Compat.OPM_1_26, Compat.NEWEST})
ALL = frozenset(Compat)


class OlmVersion(StrEnum):
    """Major versions of OLM."""

    V0 = "v0"
    V1 = "v1"
