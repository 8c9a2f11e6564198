"""Settings of the environment: user directories of the XDG Base Directory Specification, and SOURCE_DATE_EPOCH."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.core.errors import OpmkitError

if TYPE_CHECKING:
    from collections.abc import Mapping


def home(environ: Mapping[str, str]) -> Path | None:
    """Return ``HOME``, else the home directory in the user database."""
    if path := environ.get("HOME"):
        return Path(path)
    try:
        return Path.home()
    except RuntimeError:
        return None


def config_home(environ: Mapping[str, str]) -> Path | None:
    """Return ``XDG_CONFIG_HOME``, else ``~/.config``."""
    return _variable_or_default(environ, "XDG_CONFIG_HOME", ".config")


def cache_home(environ: Mapping[str, str]) -> Path | None:
    """Return ``XDG_CACHE_HOME``, else ``~/.cache``."""
    return _variable_or_default(environ, "XDG_CACHE_HOME", ".cache")


def data_home(environ: Mapping[str, str]) -> Path | None:
    """Return ``XDG_DATA_HOME``, else ``~/.local/share``."""
    return _variable_or_default(environ, "XDG_DATA_HOME", ".local/share")


def _variable_or_default(environ: Mapping[str, str], variable: str, default: str) -> Path | None:
    if path := environ.get(variable):
        return Path(path)
    directory = home(environ)
    return directory and directory / default


def source_date_epoch() -> int:
    """Return SOURCE_DATE_EPOCH in seconds of Unix time, 0 if unset.

    See https://reproducible-builds.org/specs/source-date-epoch/.

    Raises:
        OpmkitError: The value is not a valid time.
    """
    from datetime import UTC, datetime  # slow to import: commands without images need only the directories

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
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
