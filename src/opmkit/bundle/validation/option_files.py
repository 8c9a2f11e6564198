"""Files that options name beside the bundle."""

from __future__ import annotations

from pathlib import Path

MAX_BYTES = 1024 * 1024
"""Size that such a file may have."""


def read_given_file(path: str) -> bytes:
    """Read it; OSError if it can't be read, is no file, or exceeds the bound."""
    with Path(path).open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(f"it is larger than the {MAX_BYTES} bytes that it may have")
    return content
