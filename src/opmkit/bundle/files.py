"""Atomic writes of single files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_file(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write a file atomically, and create its parent directories. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content.encode() if isinstance(content, str) else content)
    part.chmod(mode)
    part.replace(path)
