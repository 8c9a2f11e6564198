"""Settings and operations of the command line that hints refer to."""

from __future__ import annotations

from opmkit.core.hints import Operation, Setting


class CliSetting(Setting):
    """Settings of the command line that hints refer to."""

    BASE_CSV = "base_csv"


class CliOperation(Operation):
    """Operations of the command line that hints refer to."""

    GENERATE_BASE = "generate_base"
    PIN_BUNDLE = "pin_bundle"
