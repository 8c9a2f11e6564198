"""Polling intervals."""

from __future__ import annotations

import re

from opmkit.index.errors import CatalogError

_UNIT = r"(?:ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+){_UNIT})+")


def check_interval(interval: str) -> None:
    """Raise CatalogError unless a polling interval is a positive Go duration."""
    if not _DURATION.fullmatch(interval):
        raise CatalogError(f"invalid polling interval {interval!r}", hint="write a Go duration: 30m, 1h30m, 45s")
    if not re.search("[1-9]", interval):
        raise CatalogError(f"invalid polling interval {interval!r}: zero", hint="set a longer one, such as 30m")
