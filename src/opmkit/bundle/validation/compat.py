"""Programs whose results and rules apply: releases of the Go tools, and versions of OLM; and options of rules."""

from __future__ import annotations

from enum import Enum, StrEnum

from msgspec import Struct


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


class OptionFile(Struct, frozen=True):
    """A file that an option names: its content, or the arguments of the OSError with which it could not be read."""

    path: str
    content: bytes = b""
    error: tuple[int | str | None, ...] = ()


class Options(Struct, frozen=True):
    """Options of optional validators, "" if not given, and of the rules about upgrades.

    ``replaced_crds`` are the files with CustomResourceDefinitions of the bundle that is replaced. ``olm`` is the only
    OLM whose rules about upgrades run, None for all. ``files`` are the files that options name, read once, because
    results are cached by what was read.
    """

    k8s_version: str = ""
    index_path: str = ""
    container_tools: str = ""
    categories_file: str = ""
    replaced_crds: tuple[bytes, ...] = ()
    olm: OlmVersion | None = None
    files: tuple[OptionFile, ...] = ()
