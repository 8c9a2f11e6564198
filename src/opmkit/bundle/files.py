"""Atomic writes of single files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_PREFIX, _SUFFIX = ".opm-", ".part"


def write_file(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write a file atomically, and create its parent directories. Raises OSError.

    Several writers of the same file do not disturb each other: the last one wins. Names of files in a text can have
    bytes that are not UTF-8, as ``os.fsdecode`` returns them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(_SUFFIX, _PREFIX, path.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode(errors="surrogateescape") if isinstance(content, str) else content)
            os.fchmod(descriptor, mode)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def is_partial(path: Path) -> bool:
    """Return whether a path is that of a file which `write_file` has not completed, and which is to be ignored."""
    return path.name.startswith(_PREFIX) and path.name.endswith(_SUFFIX)
