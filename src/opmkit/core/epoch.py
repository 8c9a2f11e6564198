"""SOURCE_DATE_EPOCH handling."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from opmkit.core.errors import OpmkitError


def source_date_epoch() -> int:
    """Return SOURCE_DATE_EPOCH in seconds of Unix time, 0 if unset.

    See https://reproducible-builds.org/specs/source-date-epoch/.

    Raises:
        OpmkitError: The value is not a valid time.
    """
    text = os.environ.get("SOURCE_DATE_EPOCH") or "0"
    try:
        seconds = int(text)
        datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise OpmkitError(
            f"SOURCE_DATE_EPOCH: invalid time {text!r}", hint="set it to seconds since 1970, or unset it"
        ) from error
    return seconds


def rfc3339(seconds: int) -> str:
    """Format Unix time as image configurations do, such as ``1970-01-01T00:00:00Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
