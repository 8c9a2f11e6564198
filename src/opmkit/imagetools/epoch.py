"""The time that images and databases bear."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from opmkit.imagetools.errors import ImageToolsError


def source_date_epoch() -> int:
    """SOURCE_DATE_EPOCH in seconds of Unix time, 0 where unset; raises ImageToolsError for what is no time.

    See https://reproducible-builds.org/specs/source-date-epoch/.
    """
    text = os.environ.get("SOURCE_DATE_EPOCH") or "0"
    try:
        seconds = int(text)
        datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ImageToolsError(
            f"SOURCE_DATE_EPOCH is {text!r}, which is no time", hint="set it to seconds since 1970, or unset it"
        ) from error
    return seconds


def rfc3339(seconds: int) -> str:
    """A Unix time as image configurations write it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
