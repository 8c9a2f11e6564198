"""Flags and commands for authors of operators that hints name."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from opmkit.author.run.hint_terms import OlmOperation, OlmSetting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.core.hints import Operation, Setting

SETTINGS: Sequence[Setting] = tuple(OlmSetting)
FLAGS: Mapping[Setting, tuple[str, ...]] = MappingProxyType(
    {OlmSetting.PULL_SECRET: ("--pull-secret-name",), OlmSetting.SECURITY_CONTEXT: ("--security-context-config",)}
)
COMMANDS: Mapping[Operation, str] = MappingProxyType(
    {
        OlmOperation.CLEAN_UP: "opm cleanup",
        OlmOperation.INSTALL_OLM: "opm olm install",
        OlmOperation.OLM_STATUS: "opm olm status",
        OlmOperation.RUN_BUNDLE: "opm run bundle",
        OlmOperation.UNINSTALL_OLM: "opm olm uninstall",
        OlmOperation.UPGRADE_OPERATOR: "opm run bundle-upgrade",
    }
)
