"""Paths inside an image: relative to its root, parts joined by '/', neither '.' nor '..'."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HOPS = 40
"""The most links followed for one path, as in Linux."""


def ancestors(path: str) -> Iterator[str]:
    """The directories above a path, topmost first, without the root."""
    return (path[:position] for position, char in enumerate(path) if char == "/")


def below(path: str, prefix: str) -> bool:
    """Whether the path is the prefix or lies under it; everything is under ""."""
    return not prefix or path == prefix or path.startswith(f"{prefix}/")


def touches(path: str, prefixes: Sequence[str]) -> bool:
    """Whether what is at the path matters to what is under the prefixes."""
    return any(below(path, prefix) or below(prefix, path) for prefix in prefixes)


def normal(prefixes: Sequence[str]) -> tuple[str, ...]:
    """The prefixes without '.', empty parts and slashes at their ends."""
    return tuple("/".join(part for part in prefix.split("/") if part not in {"", "."}) for prefix in prefixes)


def normal_path(name: str) -> str | None:
    """The path without leading '/' and './', as other tools read it; None for one with '..' or NUL in it."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    return None if ".." in parts or "\0" in name else "/".join(parts)


def link_target(path: str, target: str) -> str:
    """Where a symbolic link at ``path`` points; like a process with the image as its root, '..' ends at the root."""
    parts = [] if target.startswith("/") else path.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)
