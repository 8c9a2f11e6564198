"""User directories of the XDG Base Directory Specification. All are None for a user without a home directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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


def _variable_or_default(environ: Mapping[str, str], variable: str, default: str) -> Path | None:
    if path := environ.get(variable):
        return Path(path)
    directory = home(environ)
    return directory and directory / default
