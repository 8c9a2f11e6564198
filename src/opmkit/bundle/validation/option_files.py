"""Read the files that options of validators name."""

from __future__ import annotations

from pathlib import Path

MAX_BYTES = 1024 * 1024
"""Maximum size of such a file."""


def read_option_file(path: str) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: if the file cannot be read, is not a regular file or is larger than `MAX_BYTES`.
    """
    with Path(path).open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(f"larger than {MAX_BYTES} bytes")
    return content
