"""A user's directories, from the environment (XDG Base Directory Specification); there may be none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def home(environ: Mapping[str, str]) -> Path | None:
    """``HOME``, else what the system knows; None for a user that it doesn't know."""
    if named := environ.get("HOME"):
        return Path(named)
    try:
        return Path.home()
    except RuntimeError:
        return None


def config_home(environ: Mapping[str, str]) -> Path | None:
    """``XDG_CONFIG_HOME``, else ``~/.config``."""
    return _named_or_below_home(environ, "XDG_CONFIG_HOME", ".config")


def cache_home(environ: Mapping[str, str]) -> Path | None:
    """``XDG_CACHE_HOME``, else ``~/.cache``."""
    return _named_or_below_home(environ, "XDG_CACHE_HOME", ".cache")


def _named_or_below_home(environ: Mapping[str, str], variable: str, name: str) -> Path | None:
    if named := environ.get(variable):
        return Path(named)
    directory = home(environ)
    return directory and directory / name
