"""Durations on the command line, in the format of Go."""

from __future__ import annotations

import math
import re

from opmkit.cli.errors import UsageError

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"(?:{_PART})+", re.ASCII)
_PARTS = re.compile(_PART, re.ASCII)


def parse_duration(text: str, flag: str) -> float:
    """Return the seconds of a Go duration, such as ``90s`` or ``1h30m``; raises UsageError unless it is positive."""
    seconds = (
        sum(float(number) * _UNITS[unit] for number, unit in _PARTS.findall(text)) if _DURATION.fullmatch(text) else 0
    )
    if not 0 < seconds < math.inf:
        raise UsageError(f"invalid duration {text!r} of {flag}", hint="write a positive Go duration: 90s, 2m0s, 1h30m")
    return seconds
