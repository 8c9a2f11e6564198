"""File names of OCI image layouts, by which their directories are recognized."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LAYOUT_FILE = "oci-layout"
INDEX_FILE = "index.json"


def is_layout(directory: Path) -> bool:
    """Return whether a directory is an OCI image layout."""
    return (directory / LAYOUT_FILE).is_file() and (directory / INDEX_FILE).is_file()


def layout_hint(name: str) -> str:
    """Return a hint for the directory ``name`` of a layout, where an image in the layout was probably meant."""
    return f"write oci:{name}, or oci:{name}:TAG, for an image in it"
