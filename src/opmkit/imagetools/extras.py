"""Extras of the package, which install optional dependencies."""

from __future__ import annotations


def install_extra(name: str) -> str:
    """Return the hint to install an extra; the package is not on a package index yet."""
    return f"install the extra in a checkout of opmkit: pip install '.[{name}]'"
